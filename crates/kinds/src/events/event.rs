//! Event in `events.k8s.io/v1`: other names for the fields of core/v1, and more required ones.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::VersionConversion;
use setpoint_strategy::columns::Column;
use setpoint_strategy::go_dump::GoDump;
use setpoint_strategy::{FieldLabel, FieldRef, NameRule, Names, RequestFacts, Rules, Scope, Strategy, meta};

use crate::core::event::{self as core, RENAMED};

/// Immutable fields.
const IMMUTABLE_FIELDS: &[&str] = &[
    fields::REASON,
    fields::MESSAGE,
    fields::SOURCE,
    fields::FIRST_TIMESTAMP,
    fields::LAST_TIMESTAMP,
    fields::COUNT,
    fields::REASON,
    fields::TYPE,
    fields::EVENT_TIME,
    fields::ACTION,
    fields::RELATED,
    fields::REPORTING_COMPONENT,
    fields::REPORTING_INSTANCE,
];

#[derive(Debug)]
pub struct Event;

impl Strategy for Event {
    const KIND: (&'static str, &'static str, &'static str) = ("events.k8s.io", "v1", "Event");
    const NAMES: Names = core::Event::NAMES;
    const COLUMNS: &'static [Column] = core::Event::COLUMNS;
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("reason", &[&[fields::REASON]]),
        FieldLabel::renamed("regarding.apiVersion", "involvedObject.apiVersion"),
        FieldLabel::renamed("regarding.fieldPath", "involvedObject.fieldPath"),
        FieldLabel::renamed("regarding.kind", "involvedObject.kind"),
        FieldLabel::renamed("regarding.name", "involvedObject.name"),
        FieldLabel::renamed("regarding.namespace", "involvedObject.namespace"),
        FieldLabel::renamed("regarding.resourceVersion", "involvedObject.resourceVersion"),
        FieldLabel::renamed("regarding.uid", "involvedObject.uid"),
        FieldLabel::renamed("reportingController", "reportingComponent"),
        FieldLabel::new("type", &[&[fields::TYPE]]),
    ];
    const RULES: Rules = core::Event::RULES;

    // The rules are those of the storage version and of [`VersionConversion::validate_hub`].
    fn validate(_event: &FieldRef<'_>, _facts: &RequestFacts) {}
}

impl VersionConversion for Event {
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

    fn validate_hub(event: &FieldRef<'_>, _facts: &RequestFacts) {
        core::validate(event, fields::REPORTING_CONTROLLER);
        meta::validate(
            &event.at(fields::METADATA),
            Scope::Namespaced,
            NameRule::Subdomain,
        );
        meta::validate_finalizers_qualified(&event.at(fields::METADATA));
        validate_series(event);
        event.at(fields::EVENT_TIME).require();
        let kind = event.at(fields::TYPE);
        if !matches!(kind.str(), "Normal" | "Warning") {
            kind.invalid_as("", &format!("has invalid value: {}", kind.str()));
        }
        for field in [
            fields::FIRST_TIMESTAMP,
            fields::LAST_TIMESTAMP,
            fields::COUNT,
            fields::SOURCE,
        ] {
            if event.at(field).is_set() && !is_empty(&event.at(field)) {
                event.at(field).invalid_as("", "needs to be unset");
            }
        }
    }

    fn validate_hub_update(event: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        let metadata = event.at(fields::METADATA);
        meta::validate(&metadata, Scope::Namespaced, NameRule::PathSegment);
        meta::validate_update(&metadata, &old.at(fields::METADATA));
        core::validate(event, fields::REPORTING_CONTROLLER);
        if !event.at(fields::SERIES).is_same(&old.at(fields::SERIES)) {
            validate_series(event);
        }
        let object = event.at(fields::INVOLVED_OBJECT);
        if !object.is_same(&old.at(fields::INVOLVED_OBJECT)) {
            object.invalid_as(GoDump(&object), "field is immutable");
        }
        for field in IMMUTABLE_FIELDS {
            let errors = match *field {
                fields::REPORTING_COMPONENT => event.errors().at(fields::REPORTING_CONTROLLER),
                field => event.errors().at(field),
            };
            let new = event.at(field).with_errors(errors);
            match new.shape() {
                Some(_) if !new.is_same(&old.at(field)) => {
                    new.invalid_as(GoDump(&new), "field is immutable");
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

fn is_empty(field: &FieldRef<'_>) -> bool {
    field.is_empty() || field.find_int() == Some(0)
}

fn validate_series(event: &FieldRef<'_>) {
    let series = event.at(fields::SERIES);
    if !series.is_set() {
        return;
    }
    if series.at(fields::COUNT).int() < 2 {
        let field = event.errors().at("series.count");
        field.invalid("", "should be at least 2");
    }
    if !series.at(fields::LAST_OBSERVED_TIME).is_set() {
        event.errors().at("series.lastObservedTime").required("");
    }
}
