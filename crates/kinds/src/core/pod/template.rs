//! Pod templates of workload kinds.
//!
//! A kind with a template calls [`set_defaults`] for defaults, [`validate`] (or [`validate_for_update`] on updates), adds its
//! own requirements ([`require_always_restart`]), and returns [`warnings`].

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, RequestFacts, meta};

use super::spec::validation_options::PodValidationOptions;
use super::spec::{self, PodContext};
use super::{ALWAYS, annotations};

/// The containers of the template in `spec.template`.
pub(crate) const CONTAINERS: Column = Column::text("Containers", |object, _| {
    Cell::from(of_containers(
        &object.at(fields::SPEC).at(fields::TEMPLATE),
        fields::NAME,
    ))
})
.wide()
.description("The containers of the pod template.");

/// The images of the template in `spec.template`.
pub(crate) const IMAGES: Column = Column::text("Images", |object, _| {
    Cell::from(of_containers(
        &object.at(fields::SPEC).at(fields::TEMPLATE),
        fields::IMAGE,
    ))
})
.wide()
.description("The images of the pod template.");

/// Sets the defaults of a template.
pub(crate) fn set_defaults(template: &mut Tree) {
    spec::defaults::set_defaults(template.child(fields::SPEC));
}

/// Validates a new template.
pub(crate) fn validate(template: &FieldRef<'_>, facts: &RequestFacts) {
    validate_with(template, PodValidationOptions::default(), facts);
}

/// Validates an updated template, which may keep violating rules that the old one violates.
pub(crate) fn validate_for_update(template: &FieldRef<'_>, old: &FieldRef<'_>, facts: &RequestFacts) {
    let errors = Errors::default();
    validate(&template.with_errors(errors.clone()), facts);
    if !errors.is_empty() {
        let options = PodValidationOptions::for_update(
            &old.at(fields::SPEC),
            &old.at(fields::METADATA).at(fields::ANNOTATIONS),
        );
        validate_with(template, options, facts);
    }
}

fn validate_with(template: &FieldRef<'_>, options: PodValidationOptions, facts: &RequestFacts) {
    let (metadata, spec) = (template.at(fields::METADATA), template.at(fields::SPEC));
    // Kubernetes reports these two at the path of the template itself.
    let labels = metadata
        .at(fields::LABELS)
        .with_errors(template.errors().at(fields::LABELS));
    let template_annotations = metadata
        .at(fields::ANNOTATIONS)
        .with_errors(template.errors().at(fields::ANNOTATIONS));
    meta::validate_labels(&labels);
    meta::validate_annotations(&template_annotations);
    annotations::validate(&template_annotations, &spec, options.deletion_cost);
    let pod_context = PodContext {
        pod: None,
        options,
        allow_privileged: facts.allow_privileged,
    };
    spec::validate(&spec, &pod_context);
    annotations::validate_match(&template_annotations, &spec);
    let ephemeral = spec.at(fields::EPHEMERAL_CONTAINERS);
    if !ephemeral.is_empty() {
        ephemeral.forbidden("ephemeral containers not allowed in pod template");
    }
}

/// Warnings about a valid template.
pub(crate) fn warnings(template: &FieldRef<'_>) -> Vec<String> {
    super::warnings::of_template(template)
}

/// Reports a template whose restart policy is not `Always`.
pub(crate) fn require_always_restart(template: &FieldRef<'_>) {
    let policy = template.at(fields::SPEC).at(fields::RESTART_POLICY);
    if policy.str() != ALWAYS {
        policy.not_supported(&[ALWAYS]);
    }
}

/// A field of each container, separated by commas.
pub(crate) fn of_containers(template: &FieldRef<'_>, field: &str) -> String {
    let containers = template.at(fields::SPEC).at(fields::CONTAINERS);
    let texts: Vec<&str> = containers
        .items()
        .map(|container| container.at(field).str())
        .collect();
    texts.join(",")
}
