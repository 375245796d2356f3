//! Pod templates of workload kinds.
//!
//! A kind with a template calls [`set_defaults`] for defaults, [`validate`] (or [`validate_for_update`] on updates), adds its
//! own requirements ([`require_always_restart`]), and returns [`warnings`].

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::spec::validation_options::PodValidationOptions;
use super::spec::{self, PodContext};
use super::{ALWAYS, annotations};
use crate::columns::Column;
use crate::field::FieldRef;
use crate::meta;

/// The containers of the template in `spec.template`.
pub(crate) const CONTAINERS: Column = Column::text("Containers", |object, _| {
    Cell::from(of_containers(&object.at("spec").at("template"), "name"))
})
.wide()
.description("The containers of the pod template.");

/// The images of the template in `spec.template`.
pub(crate) const IMAGES: Column = Column::text("Images", |object, _| {
    Cell::from(of_containers(&object.at("spec").at("template"), "image"))
})
.wide()
.description("The images of the pod template.");

/// Sets the defaults of a template.
pub(crate) fn set_defaults(template: &mut Tree) {
    spec::defaults::set_defaults(template.child("spec"));
}

/// Validates a new template.
pub(crate) fn validate(template: &FieldRef<'_>) {
    validate_with(template, PodValidationOptions::default());
}

/// Validates an updated template, which may keep violating rules that the old one violates.
pub(crate) fn validate_for_update(template: &FieldRef<'_>, old: &FieldRef<'_>) {
    let errors = Errors::default();
    validate(&template.with_errors(errors.clone()));
    if !errors.is_empty() {
        let options =
            PodValidationOptions::for_update(&old.at("spec"), &old.at("metadata").at("annotations"));
        validate_with(template, options);
    }
}

fn validate_with(template: &FieldRef<'_>, options: PodValidationOptions) {
    let (metadata, spec) = (template.at("metadata"), template.at("spec"));
    // Kubernetes reports these two at the path of the template itself.
    let labels = metadata.at("labels").with_errors(template.errors().at("labels"));
    let template_annotations = metadata
        .at("annotations")
        .with_errors(template.errors().at("annotations"));
    meta::validate_labels(&labels);
    meta::validate_annotations(&template_annotations);
    annotations::validate(&template_annotations, &spec, options.deletion_cost);
    spec::validate(&spec, &PodContext { pod: None, options });
    annotations::validate_match(&template_annotations, &spec);
    let ephemeral = spec.at("ephemeralContainers");
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
    let policy = template.at("spec").at("restartPolicy");
    if policy.str() != ALWAYS {
        policy.not_supported(&[ALWAYS]);
    }
}

/// A field of each container, separated by commas.
pub(crate) fn of_containers(template: &FieldRef<'_>, field: &str) -> String {
    let containers = template.at("spec").at("containers");
    let texts: Vec<&str> = containers
        .items()
        .map(|container| container.at(field).str())
        .collect();
    texts.join(",")
}
