//! Event: what happened to an object, for people to read. Lives for an hour.

use std::time::Duration;

use jiff::Timestamp;

use setpoint_api::table::Cell;

use crate::at::At;
use crate::columns::{self, Column, UNKNOWN};
use crate::strategy::{Facts, Field, NameRule, Names, Rules, Strategy};

#[derive(Debug)]
pub struct Event;

impl Strategy for Event {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Event");
    const NAMES: Names = Names::new("events", "event").short(&["ev"]);
    const COLUMNS: &'static [Column] = &[
        Column::text("Last Seen", |event, now| Cell::from(last_seen(event, now)))
            .about("The time since it was last seen."),
        Column::text("Type", |event, _| columns::or_empty(&event.at("type"))).about("How grave it is."),
        Column::text("Reason", |event, _| columns::or_empty(&event.at("reason"))).about("Why it happened."),
        Column::text("Object", |event, _| Cell::from(object(event))).about("What it is about."),
        Column::text("Subobject", |event, _| {
            columns::or_empty(&event.at("involvedObject").at("fieldPath"))
        })
        .wide()
        .about("Which part of the object it is about."),
        Column::text("Source", |event, _| Cell::from(source(event)))
            .wide()
            .about("Who reported it."),
        Column::text("Message", |event, _| Cell::from(event.at("message").str().trim()))
            .about("What happened, in words."),
        Column::text("First Seen", |event, now| {
            Cell::from(seen(&event.at("firstTimestamp"), event, now))
        })
        .wide()
        .about("The time since it was first seen."),
        Column::text("Count", |event, _| Cell::from(count(event)))
            .wide()
            .about("How often it was seen."),
        columns::NAME.wide(),
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

    fn validate(event: &At<'_>) {
        let own = event.at("metadata").at("namespace");
        let about = event.at("involvedObject").at("namespace");
        // Events about objects of the whole cluster live in the default namespace.
        let fits = match about.str() {
            "" => matches!(own.str(), "default" | "kube-system" | ""),
            about => about == own.str(),
        };
        if !fits {
            about.invalid("does not match event.namespace");
        }
    }

    fn expires_after(facts: &Facts) -> Option<Duration> {
        Some(facts.event_ttl)
    }
}

fn object(event: &At<'_>) -> String {
    let object = event.at("involvedObject");
    let kind = object.at("kind").str().to_lowercase();
    match object.at("name").str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &At<'_>) -> String {
    let source = event.at("source");
    let (component, instance) = match source.at("component").str() {
        "" => (
            event.at("reportingComponent").str(),
            event.at("reportingInstance").str(),
        ),
        component => (component, source.at("host").str()),
    };
    match instance {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}

fn count(event: &At<'_>) -> i64 {
    let series = event.at("series").at("count").find_int();
    series.unwrap_or_else(|| event.at("count").int()).max(1)
}

fn last_seen(event: &At<'_>, now: Timestamp) -> String {
    match event.at("series").at("lastObservedTime").time() {
        Some(observed) => columns::ago(observed, now),
        None => seen(&event.at("lastTimestamp"), event, now),
    }
}

fn seen(time: &At<'_>, event: &At<'_>, now: Timestamp) -> String {
    let then = time.time().or_else(|| event.at("eventTime").time());
    then.map_or_else(|| UNKNOWN.to_owned(), |then| columns::ago(then, now))
}
