//! ControllerRevision: what an object looked like once, kept so that it can look so again. It never changes.

use setpoint_api::table::Cell;

use crate::at::At;
use crate::columns::{self, Column, NONE};
use crate::strategy::{Names, Strategy};

#[derive(Debug)]
pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    const KIND: (&'static str, &'static str, &'static str) = ("apps", "v1", "ControllerRevision");
    const NAMES: Names = Names::new("controllerrevisions", "controllerrevision");
    const COLUMNS: &'static [Column] = &[
        columns::NAME,
        Column::text("Controller", |revision, _| Cell::from(controller(revision)))
            .about("The object it is a revision of."),
        Column::text("Revision", |revision, _| {
            Cell::from(revision.at("revision").int())
        })
        .about("Its place among the revisions of that object."),
        columns::AGE,
    ];

    fn validate(revision: &At<'_>) {
        revision.at("revision").not_negative();
        let data = revision.at("data");
        if !data.is_set() {
            data.required("data is mandatory");
        } else if data.map().is_none() {
            data.required("data must be a valid JSON object");
        }
    }

    fn validate_again(revision: &At<'_>, _old: &At<'_>) {
        revision.at("revision").not_negative();
    }

    fn validate_update(revision: &At<'_>, old: &At<'_>) {
        revision.at("data").immutable(&old.at("data"));
    }
}

/// Kind, group and name of the owner that is the controller.
fn controller(revision: &At<'_>) -> String {
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
