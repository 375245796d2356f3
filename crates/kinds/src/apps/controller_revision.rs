//! ControllerRevision: an immutable snapshot of a workload's template, to roll back to.

use setpoint_api::table::Cell;

use crate::columns::{self, Column, NONE};
use crate::field::FieldRef;
use crate::strategy::{Names, Strategy};

#[derive(Debug)]
pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "ControllerRevision");
    const NAMES: Names = Names::new("controllerrevisions", "controllerrevision");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Controller", |revision, _| Cell::from(controller(revision)))
            .description("The controller of the revision."),
        Column::text("Revision", |revision, _| {
            Cell::from(revision.at("revision").int())
        })
        .description("The revision number."),
        columns::AGE,
    ];

    fn validate(revision: &FieldRef<'_>) {
        revision.at("revision").not_negative();
        let data = revision.at("data");
        if !data.is_set() {
            data.required("data is mandatory");
        } else if data.map().is_none() {
            data.required("data must be a valid JSON object");
        }
    }

    fn validate_for_update(revision: &FieldRef<'_>, _old: &FieldRef<'_>) {
        revision.at("revision").not_negative();
    }

    fn validate_update(revision: &FieldRef<'_>, old: &FieldRef<'_>) {
        revision.at("data").immutable(&old.at("data"));
    }
}

/// Kind, group and name of the owner that is the controller.
fn controller(revision: &FieldRef<'_>) -> String {
    let mut owners = revision.at("metadata").at("ownerReferences").items();
    let Some(owner) = owners.find(|owner| owner.at("controller").bool()) else {
        return NONE.to_owned();
    };
    let kind = owner.at("kind").str().to_lowercase();
    let name = owner.at("name").str();
    match owner.at("apiVersion").str().split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
