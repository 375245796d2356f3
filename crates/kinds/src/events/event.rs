//! Event in the version that came later: other names for the same fields, and more that must be said.

use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::Column;
use crate::core::event::{self as core, RENAMED};
use crate::meta;
use crate::shared::internal::Internal;
use crate::spoke::Version;
use crate::strategy::{Field, NameRule, Names, Rules, Scope, Strategy};

/// What an event is about and who reports it does not change.
const FIXED: &[&str] = &[
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

#[derive(Debug)]
pub struct Event;

impl Strategy for Event {
    const KIND: (&'static str, &'static str, &'static str) = ("events.k8s.io", "v1", "Event");
    const NAMES: Names = core::Event::NAMES;
    const COLUMNS: &'static [Column] = core::Event::COLUMNS;
    const FIELDS: &'static [Field] = &[
        Field::new("reason", &[&["reason"]]),
        Field::renamed("regarding.apiVersion", "involvedObject.apiVersion"),
        Field::renamed("regarding.fieldPath", "involvedObject.fieldPath"),
        Field::renamed("regarding.kind", "involvedObject.kind"),
        Field::renamed("regarding.name", "involvedObject.name"),
        Field::renamed("regarding.namespace", "involvedObject.namespace"),
        Field::renamed("regarding.resourceVersion", "involvedObject.resourceVersion"),
        Field::renamed("regarding.uid", "involvedObject.uid"),
        Field::renamed("reportingController", "reportingComponent"),
        Field::new("type", &[&["type"]]),
    ];
    const RULES: Rules = core::Event::RULES;

    // The rules are those of the stored version and of [`Version::validate_hub`].
    fn validate(_event: &At<'_>) {}
}

impl Version for Event {
    type Hub = core::Event;

    fn to_hub(tree: &mut Tree) {
        for (first, later) in RENAMED {
            rename(tree, later, first);
        }
    }

    fn from_hub(tree: &mut Tree) {
        for (first, later) in RENAMED {
            rename(tree, first, later);
        }
    }

    fn validate_hub(event: &At<'_>) {
        core::validate(event, "reportingController");
        meta::validate(&event.at("metadata"), Scope::Namespaced, NameRule::Subdomain);
        meta::validate_finalizer_owners(&event.at("metadata"));
        validate_series(event);
        event.at("eventTime").require();
        let kind = event.at("type");
        if !matches!(kind.str(), "Normal" | "Warning") {
            kind.invalid_as("", &format!("has invalid value: {}", kind.str()));
        }
        for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            if event.at(field).is_set() && !is_empty(&event.at(field)) {
                event.at(field).invalid_as("", "needs to be unset");
            }
        }
    }

    fn validate_hub_update(event: &At<'_>, old: &At<'_>) {
        core::validate(event, "reportingController");
        meta::validate_update(&event.at("metadata"), &old.at("metadata"));
        if !event.at("series").is_same(&old.at("series")) {
            validate_series(event);
        }
        let object = event.at("involvedObject");
        if !object.is_same(&old.at("involvedObject")) {
            object.invalid_as(Internal(&object), "field is immutable");
        }
        for field in FIXED {
            let place = match *field {
                "reportingComponent" => event.errors().at("reportingController"),
                field => event.errors().at(field),
            };
            let new = event.at(field).reported_at(place);
            match new.shape() {
                Some(_) if !new.is_same(&old.at(field)) => {
                    new.invalid_as(Internal(&new), "field is immutable");
                }
                Some(_) => {}
                None => new.immutable(&old.at(field)),
            }
        }
    }
}

fn rename(tree: &mut Tree, from: &str, to: &str) {
    if let Some(value) = tree.take(&[from]) {
        tree.set(&[to], value);
    }
}

fn is_empty(place: &At<'_>) -> bool {
    place.is_empty() || place.find_int() == Some(0)
}

fn validate_series(event: &At<'_>) {
    let series = event.at("series");
    if !series.is_set() {
        return;
    }
    if series.at("count").int() < 2 {
        let place = event.errors().at("series.count");
        place.invalid("", "should be at least 2");
    }
    if !series.at("lastObservedTime").is_set() {
        event.errors().at("series.lastObservedTime").required("");
    }
}
