//! Event: what happened to an object, for people to read. Lives for an hour.

use std::time::Duration;

use jiff::Timestamp;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::at::At;
use crate::columns::{self, Column, UNKNOWN};
use crate::shared::name;
use crate::strategy::{Facts, Field, NameRule, Names, Rules, Strategy};

const FIELD_BYTES: usize = 128;
const MESSAGE_BYTES: usize = 1024;

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
            columns::or_empty(&part(event, "involvedObject").at("fieldPath"))
        })
        .wide()
        .about("Which part of the object it is about."),
        Column::text("Source", |event, _| Cell::from(source(event)))
            .wide()
            .about("Who reported it."),
        Column::text("Message", |event, _| {
            Cell::from(part(event, "message").str().trim())
        })
        .about("What happened, in words."),
        Column::text("First Seen", |event, now| Cell::from(first_seen(event, now)))
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
        metadata_last: true,
        plain_finalizers: true,
        ..Rules::DEFAULT
    };

    fn prepare_create(_event: &mut Tree, _facts: &Facts) {}

    fn prepare_update(_event: &mut Tree, _old: &Tree, _facts: &Facts) {}

    fn validate(event: &At<'_>) {
        validate(event, "reportingComponent");
    }

    fn expires_after(facts: &Facts) -> Option<Duration> {
        Some(facts.event_ttl)
    }
}

/// The fields that are called otherwise in the version that came later.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Reports what is wrong with an event of either version. `controller` is what the caller's version calls the one who
/// reports.
pub(crate) fn validate(event: &At<'_>, controller: &str) {
    let own = event.at("metadata").at("namespace").str();
    let about = event.at("involvedObject").at("namespace");
    // An event without a time of its own is one of the old sort, of which little is asked.
    let new = event.at("eventTime").is_set();
    let fits = match (about.str(), new) {
        ("", true) => matches!(own, "default" | "kube-system"),
        ("", false) => matches!(own, "default" | ""),
        (_, true) => true,
        (about, false) => about == own,
    };
    if !fits {
        about.invalid("does not match event.namespace");
    }
    if !new {
        return;
    }
    let reporter = event.at("reportingComponent");
    let reporter = reporter.reported_at(event.errors().at(controller));
    reporter.require();
    name::check(&reporter, name::qualified);
    for field in ["reportingInstance", "action", "reason"] {
        event.at(field).require();
        check_length(&event.at(field), FIELD_BYTES);
    }
    check_length(&event.at("message"), MESSAGE_BYTES);
}

fn check_length(text: &At<'_>, most: usize) {
    if text.str().len() > most {
        text.invalid_as("", &format!("can have at most {most} characters"));
    }
}

/// A field of an event of either version, by its first name.
fn part<'a>(event: &At<'a>, name: &str) -> At<'a> {
    let known = event.shape().is_some_and(|shape| shape.member(name).is_some());
    let renamed = RENAMED.iter().find(|(first, _)| !known && *first == name);
    event.at(renamed.map_or(name, |(_, later)| *later))
}

fn object(event: &At<'_>) -> String {
    let object = part(event, "involvedObject");
    let kind = object.at("kind").str().to_lowercase();
    match object.at("name").str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &At<'_>) -> String {
    let source = part(event, "source");
    let first = |one: At<'_>, other: At<'_>| match one.str() {
        "" => other.str().to_owned(),
        text => text.to_owned(),
    };
    let component = first(source.at("component"), part(event, "reportingComponent"));
    let instance = first(source.at("host"), event.at("reportingInstance"));
    match instance.as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    }
}

fn count(event: &At<'_>) -> i64 {
    let series = event.at("series");
    match (series.is_set(), part(event, "count").int()) {
        (true, _) => series.at("count").int(),
        (false, count) => count.max(1),
    }
}

fn first_seen(event: &At<'_>, now: Timestamp) -> String {
    let first = part(event, "firstTimestamp").time();
    let then = first.or_else(|| event.at("eventTime").time());
    then.map_or_else(|| UNKNOWN.to_owned(), |then| columns::ago(then, now))
}

fn last_seen(event: &At<'_>, now: Timestamp) -> String {
    let series = event.at("series");
    let last = match series.is_set() {
        true => series.at("lastObservedTime"),
        false => part(event, "lastTimestamp"),
    };
    match last.time() {
        Some(then) => columns::ago(then, now),
        None if series.is_set() => UNKNOWN.to_owned(),
        None => first_seen(event, now),
    }
}
