//! Event: a report about an object, for people to read. Expires after the server's event TTL.

use std::time::Duration;

use jiff::Timestamp;

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use crate::columns::{self, Column, UNKNOWN};
use crate::field::FieldRef;
use crate::shared::name;
use crate::strategy::{FieldLabel, NameRule, Names, RequestFacts, Rules, Strategy};

const FIELD_BYTES: usize = 128;
const MESSAGE_BYTES: usize = 1024;

#[derive(Debug)]
pub struct Event;

impl Strategy for Event {
    const KIND: (&'static str, &'static str, &'static str) = ("", "v1", "Event");
    const NAMES: Names = Names::new("events", "event").short(&["ev"]);
    const COLUMNS: &'static [Column] = &[
        Column::text("Last Seen", |event, now| Cell::from(last_seen(event, now)))
            .description("The time since the last occurrence."),
        Column::text("Type", |event, _| columns::or_empty(&event.at("type")))
            .description("Normal or Warning."),
        Column::text("Reason", |event, _| columns::or_empty(&event.at("reason"))).description("The reason."),
        Column::text("Object", |event, _| Cell::from(object(event))).description("The regarding object."),
        Column::text("Subobject", |event, _| {
            columns::or_empty(&field_of(event, "involvedObject").at("fieldPath"))
        })
        .wide()
        .description("The field path in the regarding object."),
        Column::text("Source", |event, _| Cell::from(source(event)))
            .wide()
            .description("The reporting component."),
        Column::text("Message", |event, _| {
            Cell::from(field_of(event, "message").str().trim())
        })
        .description("The message."),
        Column::text("First Seen", |event, now| Cell::from(first_seen(event, now)))
            .wide()
            .description("The time since the first occurrence."),
        Column::text("Count", |event, _| Cell::from(count(event)))
            .wide()
            .description("The number of occurrences."),
        columns::NAME.wide(),
    ];
    const FIELDS: &'static [FieldLabel] = &[
        FieldLabel::new("involvedObject.apiVersion", &[&["involvedObject", "apiVersion"]]),
        FieldLabel::new("involvedObject.fieldPath", &[&["involvedObject", "fieldPath"]]),
        FieldLabel::new("involvedObject.kind", &[&["involvedObject", "kind"]]),
        FieldLabel::new("involvedObject.name", &[&["involvedObject", "name"]]),
        FieldLabel::new("involvedObject.namespace", &[&["involvedObject", "namespace"]]),
        FieldLabel::new(
            "involvedObject.resourceVersion",
            &[&["involvedObject", "resourceVersion"]],
        ),
        FieldLabel::new("involvedObject.uid", &[&["involvedObject", "uid"]]),
        FieldLabel::new("reason", &[&["reason"]]),
        FieldLabel::new("reportingComponent", &[&["reportingComponent"]]),
        FieldLabel::new("source", &[&["source", "component"], &["reportingComponent"]]),
        FieldLabel::new("type", &[&["type"]]),
    ];
    const RULES: Rules = Rules {
        name: NameRule::PathSegment,
        create_on_update: true,
        garbage_collected: false,
        validate_metadata_last: true,
        unqualified_finalizers: true,
        ..Rules::DEFAULT
    };

    fn prepare_create(_event: &mut Tree, _facts: &RequestFacts) {}

    fn prepare_update(_event: &mut Tree, _old: &Tree, _facts: &RequestFacts) {}

    fn validate(event: &FieldRef<'_>) {
        validate(event, "reportingComponent");
    }

    fn expires_after(facts: &RequestFacts) -> Option<Duration> {
        Some(facts.event_ttl)
    }
}

/// Fields of `events.k8s.io/v1` with the names they have in core/v1.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Validates an event of either version. `controller` is the name of the reporting component's field in the caller's
/// version.
pub(crate) fn validate(event: &FieldRef<'_>, controller: &str) {
    let namespace = event.at("metadata").at("namespace").str();
    let involved = event.at("involvedObject").at("namespace");
    // An event without `eventTime` is of the legacy form, for which few rules apply.
    let new = event.at("eventTime").is_set();
    let fits = match (involved.str(), new) {
        ("", true) => matches!(namespace, "default" | "kube-system"),
        ("", false) => matches!(namespace, "default" | ""),
        (_, true) => true,
        (involved, false) => involved == namespace,
    };
    if !fits {
        involved.invalid("does not match event.namespace");
    }
    if !new {
        return;
    }
    let reporter = event.at("reportingComponent");
    let reporter = reporter.with_errors(event.errors().at(controller));
    reporter.require();
    name::check(&reporter, name::check_qualified_name);
    for field in ["reportingInstance", "action", "reason"] {
        event.at(field).require();
        check_length(&event.at(field), FIELD_BYTES);
    }
    check_length(&event.at("message"), MESSAGE_BYTES);
}

fn check_length(text: &FieldRef<'_>, max: usize) {
    if text.str().len() > max {
        text.invalid_as("", &format!("can have at most {max} characters"));
    }
}

/// A field of an event of either version, by its `events.k8s.io/v1` name.
fn field_of<'a>(event: &FieldRef<'a>, name: &str) -> FieldRef<'a> {
    let known = event.shape().is_some_and(|shape| shape.member(name).is_some());
    let renamed = RENAMED.iter().find(|(first, _)| !known && *first == name);
    event.at(renamed.map_or(name, |(_, later)| *later))
}

fn object(event: &FieldRef<'_>) -> String {
    let object = field_of(event, "involvedObject");
    let kind = object.at("kind").str().to_lowercase();
    match object.at("name").str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &FieldRef<'_>) -> String {
    let source = field_of(event, "source");
    let first = |one: FieldRef<'_>, other: FieldRef<'_>| match one.str() {
        "" => other.str().to_owned(),
        text => text.to_owned(),
    };
    let component = first(source.at("component"), field_of(event, "reportingComponent"));
    let instance = first(source.at("host"), event.at("reportingInstance"));
    match instance.as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    }
}

fn count(event: &FieldRef<'_>) -> i64 {
    let series = event.at("series");
    match (series.is_set(), field_of(event, "count").int()) {
        (true, _) => series.at("count").int(),
        (false, count) => count.max(1),
    }
}

fn first_seen(event: &FieldRef<'_>, now: Timestamp) -> String {
    let first = field_of(event, "firstTimestamp").time();
    let then = first.or_else(|| event.at("eventTime").time());
    then.map_or_else(|| UNKNOWN.to_owned(), |then| columns::human_age(then, now))
}

fn last_seen(event: &FieldRef<'_>, now: Timestamp) -> String {
    let series = event.at("series");
    let last = match series.is_set() {
        true => series.at("lastObservedTime"),
        false => field_of(event, "lastTimestamp"),
    };
    match last.time() {
        Some(then) => columns::human_age(then, now),
        None if series.is_set() => UNKNOWN.to_owned(),
        None => first_seen(event, now),
    }
}
