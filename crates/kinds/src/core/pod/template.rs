//! Pod templates: what the kinds that make pods say of them.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{ALWAYS, spec};
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
    let metadata = template.at("metadata");
    meta::validate_labels(&metadata.at("labels"));
    meta::validate_annotations(&metadata.at("annotations"));
    spec::validate(&template.at("spec"));
}

/// Reports a template whose pods would end by themselves.
pub(crate) fn require_always_restart(template: &At<'_>) {
    template.at("spec").at("restartPolicy").one_of(&[ALWAYS]);
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
