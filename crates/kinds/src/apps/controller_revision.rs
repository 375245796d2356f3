//! ControllerRevision: an immutable snapshot of a workload's template, to roll back to.

use setpoint_api::table::Cell;
use setpoint_schema::fields;
use setpoint_strategy::columns::{self, Column, NONE};
use setpoint_strategy::{FieldRef, Names, RequestFacts, Strategy};

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
            Cell::from(revision.at(fields::REVISION).int())
        })
        .description("The revision number."),
        columns::AGE,
    ];

    fn validate(revision: &FieldRef<'_>, _facts: &RequestFacts) {
        revision.at(fields::REVISION).not_negative();
        let data = revision.at(fields::DATA);
        if !data.is_set() {
            data.required("data is mandatory");
        } else if data.map().is_none() {
            data.required("data must be a valid JSON object");
        }
    }

    fn validate_for_update(revision: &FieldRef<'_>, _old: &FieldRef<'_>, _facts: &RequestFacts) {
        revision.at(fields::REVISION).not_negative();
    }

    fn validate_update(revision: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        revision.at(fields::DATA).immutable(&old.at(fields::DATA));
    }
}

/// Kind, group and name of the owner that is the controller.
fn controller(revision: &FieldRef<'_>) -> String {
    let mut owners = revision.at(fields::METADATA).at(fields::OWNER_REFERENCES).items();
    let Some(owner) = owners.find(|owner| owner.at(fields::CONTROLLER).bool()) else {
        return NONE.to_owned();
    };
    let kind = owner.at(fields::KIND).str().to_lowercase();
    let name = owner.at(fields::NAME).str();
    match owner.at(fields::API_VERSION).str().split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
