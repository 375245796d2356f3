//! Pod templates: what the kinds that make pods say of them.
//!
//! A kind with a template fills it with [`fill`], reports with [`validate`] (and [`validate_again`] on updates), adds
//! what it asks of its pods ([`require_always_restart`]), and passes on [`warnings`].

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::spec::waived::Waived;
use super::spec::{self, Around};
use super::{ALWAYS, annotations};
use crate::at::At;
use crate::columns::Column;
use crate::meta;

/// The containers of the template in `spec.template`.
pub(crate) const CONTAINERS: Column = Column::text("Containers", |object, _| {
    Cell::from(of_containers(&object.at("spec").at("template"), "name"))
})
.wide()
.about("The containers of the template.");

/// The images of the template in `spec.template`.
pub(crate) const IMAGES: Column = Column::text("Images", |object, _| {
    Cell::from(of_containers(&object.at("spec").at("template"), "image"))
})
.wide()
.about("The images of the template.");

/// Fills in what a template leaves out.
pub(crate) fn fill(template: &mut Tree) {
    spec::defaults::fill(template.child("spec"));
}

/// Reports what is wrong with a template.
pub(crate) fn validate(template: &At<'_>) {
    validate_with(template, Waived::default());
}

/// Reports what is wrong with a template that follows another, which may go on breaking rules that are newer than it.
pub(crate) fn validate_again(template: &At<'_>, old: &At<'_>) {
    let errors = Errors::default();
    validate(&template.reported_at(errors.clone()));
    if !errors.is_empty() {
        let waived = Waived::by(&old.at("spec"), &old.at("metadata").at("annotations"));
        validate_with(template, waived);
    }
}

fn validate_with(template: &At<'_>, waived: Waived) {
    let (metadata, spec) = (template.at("metadata"), template.at("spec"));
    // Kubernetes reports these two as if they stood in the template itself.
    let labels = metadata.at("labels").reported_at(template.errors().at("labels"));
    let own = metadata
        .at("annotations")
        .reported_at(template.errors().at("annotations"));
    meta::validate_labels(&labels);
    meta::validate_annotations(&own);
    annotations::validate(&own, &spec, waived.deletion_cost);
    spec::validate(&spec, &Around { pod: None, waived });
    annotations::validate_match(&own, &spec);
    let ephemeral = spec.at("ephemeralContainers");
    if !ephemeral.is_empty() {
        ephemeral.forbidden("ephemeral containers not allowed in pod template");
    }
}

/// What a caller should know about a template that is fine.
pub(crate) fn warnings(template: &At<'_>) -> Vec<String> {
    super::warnings::of_template(template)
}

/// Reports a template whose pods would end by themselves.
pub(crate) fn require_always_restart(template: &At<'_>) {
    let policy = template.at("spec").at("restartPolicy");
    if policy.str() != ALWAYS {
        policy.not_supported(&[ALWAYS]);
    }
}

/// A field of each container, with commas between.
pub(crate) fn of_containers(template: &At<'_>, field: &str) -> String {
    let containers = template.at("spec").at("containers");
    let texts: Vec<&str> = containers
        .items()
        .map(|container| container.at(field).str())
        .collect();
    texts.join(",")
}
