//! Event: what happened to an object, for people to read. Lives for an hour.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};

use setpoint_api::field::Errors;
use setpoint_api::table::Cell;

use crate::columns::{self, Column, UNKNOWN};
use crate::strategy::{Facts, Field, NameRule, Names, Rules, Strategy};

impl Strategy for Event {
    const NAMES: Names = Names::new("events", "event").short(&["ev"]);
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text("Last Seen", |event: &Self, now| Cell::from(last_seen(event, now)))
            .about("The time since it was last seen."),
        Column::text("Type", |event: &Self, _| text(event.type_.as_deref())).about("How grave it is."),
        Column::text("Reason", |event: &Self, _| text(event.reason.as_deref())).about("Why it happened."),
        Column::text("Object", |event: &Self, _| Cell::from(object(event))).about("What it is about."),
        Column::text("Subobject", |event: &Self, _| {
            text(event.involved_object.field_path.as_deref())
        })
        .wide()
        .about("Which part of the object it is about."),
        Column::text("Source", |event: &Self, _| Cell::from(source(event)))
            .wide()
            .about("Who reported it."),
        Column::text("Message", |event: &Self, _| {
            Cell::from(event.message.as_deref().unwrap_or_default().trim())
        })
        .about("What happened, in words."),
        Column::text("First Seen", |event: &Self, now| {
            Cell::from(first_seen(event, now))
        })
        .wide()
        .about("The time since it was first seen."),
        Column::text("Count", |event: &Self, _| Cell::from(count(event)))
            .wide()
            .about("How often it was seen."),
        columns::name().wide(),
    ];
    const FIELDS: &'static [Field] = &[
        Field::new("involvedObject.apiVersion", &[&["involvedObject", "apiVersion"]]),
        Field::new("involvedObject.fieldPath", &[&["involvedObject", "fieldPath"]]),
        Field::new("involvedObject.kind", &[&["involvedObject", "kind"]]),
        Field::new("involvedObject.name", &[&["involvedObject", "name"]]),
        Field::new("involvedObject.namespace", &[&["involvedObject", "namespace"]]),
        Field::new(
            "involvedObject.resourceVersion",
            &[&["involvedObject", "resourceVersion"]],
        ),
        Field::new("involvedObject.uid", &[&["involvedObject", "uid"]]),
        Field::new("reason", &[&["reason"]]),
        Field::new("reportingComponent", &[&["reportingComponent"]]),
        Field::new("source", &[&["source", "component"], &["reportingComponent"]]),
        Field::new("type", &[&["type"]]),
    ];
    const RULES: Rules = Rules {
        name: NameRule::PathSegment,
        create_on_update: true,
        collects_dependents: false,
        ..Rules::DEFAULT
    };

    fn validate(&self, errors: &Errors<'_>) {
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        let about = self.involved_object.namespace.as_deref().unwrap_or_default();
        // Events about objects of the whole cluster live in the default namespace.
        let fits = match about {
            "" => own == "default" || own == "kube-system" || own.is_empty(),
            about => about == own,
        };
        if !fits {
            errors
                .at("involvedObject")
                .at("namespace")
                .invalid(about, "does not match event.namespace");
        }
    }

    fn expires_after(facts: &Facts) -> Option<Duration> {
        Some(facts.event_ttl)
    }
}

fn text(text: Option<&str>) -> Cell {
    Cell::from(text.unwrap_or_default())
}

fn object(event: &Event) -> String {
    let kind = event.involved_object.kind.as_deref().unwrap_or_default();
    let name = event.involved_object.name.as_deref().unwrap_or_default();
    let kind = kind.to_lowercase();
    if name.is_empty() {
        return kind;
    }
    format!("{kind}/{name}")
}

fn source(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    let component = source.component.filter(|component| !component.is_empty());
    let (component, instance) = match component {
        Some(component) => (component, source.host),
        None => (
            event.reporting_component.clone().unwrap_or_default(),
            event.reporting_instance.clone(),
        ),
    };
    match instance.filter(|instance| !instance.is_empty()) {
        Some(instance) => format!("{component}, {instance}"),
        None => component,
    }
}

fn count(event: &Event) -> i64 {
    let series = event.series.as_ref().and_then(|series| series.count);
    let count = series.or(event.count).unwrap_or_default();
    i64::from(count.max(1))
}

fn last_seen(event: &Event, now: Timestamp) -> String {
    let series = event.series.as_ref();
    let observed = series.and_then(|series| series.last_observed_time.as_ref());
    match observed {
        Some(observed) => columns::ago(observed.0, now),
        None => seen(event.last_timestamp.as_ref(), event.event_time.as_ref(), now),
    }
}

fn first_seen(event: &Event, now: Timestamp) -> String {
    seen(event.first_timestamp.as_ref(), event.event_time.as_ref(), now)
}

fn seen(time: Option<&Time>, event_time: Option<&MicroTime>, now: Timestamp) -> String {
    let then = time.map(|time| time.0).or(event_time.map(|time| time.0));
    then.map_or_else(|| UNKNOWN.to_owned(), |then| columns::ago(then, now))
}
