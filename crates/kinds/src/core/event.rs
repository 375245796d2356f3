//! Event: a report about an object, for people to read. Expires after the server's event TTL.

use std::time::Duration;

use jiff::Timestamp;

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column, UNKNOWN};
use setpoint_strategy::{FieldLabel, FieldRef, NameRule, Names, RequestFacts, Rules, Strategy, name};

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
        Column::text("Type", |event, _| columns::or_empty(&event.at(fields::TYPE)))
            .description("Normal or Warning."),
        Column::text("Reason", |event, _| columns::or_empty(&event.at(fields::REASON)))
            .description("The reason."),
        Column::text("Object", |event, _| Cell::from(object(event))).description("The regarding object."),
        Column::text("Subobject", |event, _| {
            columns::or_empty(&field_of(event, fields::INVOLVED_OBJECT).at(fields::FIELD_PATH))
        })
        .wide()
        .description("The field path in the regarding object."),
        Column::text("Source", |event, _| Cell::from(source(event)))
            .wide()
            .description("The reporting component."),
        Column::text("Message", |event, _| {
            Cell::from(field_of(event, fields::MESSAGE).str().trim())
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
        FieldLabel::new(
            "involvedObject.apiVersion",
            &[&[fields::INVOLVED_OBJECT, fields::API_VERSION]],
        ),
        FieldLabel::new(
            "involvedObject.fieldPath",
            &[&[fields::INVOLVED_OBJECT, fields::FIELD_PATH]],
        ),
        FieldLabel::new("involvedObject.kind", &[&[fields::INVOLVED_OBJECT, fields::KIND]]),
        FieldLabel::new("involvedObject.name", &[&[fields::INVOLVED_OBJECT, fields::NAME]]),
        FieldLabel::new(
            "involvedObject.namespace",
            &[&[fields::INVOLVED_OBJECT, fields::NAMESPACE]],
        ),
        FieldLabel::new(
            "involvedObject.resourceVersion",
            &[&[fields::INVOLVED_OBJECT, fields::RESOURCE_VERSION]],
        ),
        FieldLabel::new("involvedObject.uid", &[&[fields::INVOLVED_OBJECT, fields::UID]]),
        FieldLabel::new("reason", &[&[fields::REASON]]),
        FieldLabel::new("reportingComponent", &[&[fields::REPORTING_COMPONENT]]),
        FieldLabel::new(
            "source",
            &[
                &[fields::SOURCE, fields::COMPONENT],
                &[fields::REPORTING_COMPONENT],
            ],
        ),
        FieldLabel::new("type", &[&[fields::TYPE]]),
    ];
    const RULES: Rules = Rules::DEFAULT
        .name(NameRule::PathSegment)
        .create_on_update()
        .not_garbage_collected()
        .validate_metadata_last()
        .unqualified_finalizers();

    fn prepare_create(_event: &mut Tree, _facts: &RequestFacts) {}

    fn prepare_update(_event: &mut Tree, _old: &Tree, _facts: &RequestFacts) {}

    fn validate(event: &FieldRef<'_>, _facts: &RequestFacts) {
        validate(event, fields::REPORTING_COMPONENT);
    }

    fn expires_after(facts: &RequestFacts) -> Option<Duration> {
        Some(facts.event_ttl)
    }
}

/// Fields of `events.k8s.io/v1` with the names they have in core/v1.
pub(crate) const RENAMED: &[(&str, &str)] = &[
    (fields::INVOLVED_OBJECT, fields::REGARDING),
    (fields::MESSAGE, fields::NOTE),
    (fields::SOURCE, fields::DEPRECATED_SOURCE),
    (fields::FIRST_TIMESTAMP, fields::DEPRECATED_FIRST_TIMESTAMP),
    (fields::LAST_TIMESTAMP, fields::DEPRECATED_LAST_TIMESTAMP),
    (fields::COUNT, fields::DEPRECATED_COUNT),
    (fields::REPORTING_COMPONENT, fields::REPORTING_CONTROLLER),
];

/// Validates an event of either version. `controller` is the name of the reporting component's field in the caller's
/// version.
pub(crate) fn validate(event: &FieldRef<'_>, controller: &str) {
    let namespace = event.at(fields::METADATA).at(fields::NAMESPACE).str();
    let involved = event.at(fields::INVOLVED_OBJECT).at(fields::NAMESPACE);
    // An event without `eventTime` is of the legacy form, for which few rules apply.
    let new = event.at(fields::EVENT_TIME).is_set();
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
    let reporter = event.at(fields::REPORTING_COMPONENT);
    let reporter = reporter.with_errors(event.errors().at(controller));
    reporter.require();
    name::check(&reporter, name::check_qualified_name);
    for field in [fields::REPORTING_INSTANCE, fields::ACTION, fields::REASON] {
        event.at(field).require();
        check_length(&event.at(field), FIELD_BYTES);
    }
    check_length(&event.at(fields::MESSAGE), MESSAGE_BYTES);
}

fn check_length(text: &FieldRef<'_>, max: usize) {
    if text.str().len() > max {
        text.invalid_as("", &format!("can have at most {max} characters"));
    }
}

/// A field of an event of either version, by its `events.k8s.io/v1` name.
fn field_of<'a>(event: &FieldRef<'a>, name: &'a str) -> FieldRef<'a> {
    let known = event.shape().is_some_and(|shape| shape.member(name).is_some());
    let renamed = RENAMED.iter().find(|(first, _)| !known && *first == name);
    event.at(renamed.map_or(name, |(_, later)| *later))
}

fn object(event: &FieldRef<'_>) -> String {
    let object = field_of(event, fields::INVOLVED_OBJECT);
    let kind = object.at(fields::KIND).str().to_lowercase();
    match object.at(fields::NAME).str() {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &FieldRef<'_>) -> String {
    let source = field_of(event, fields::SOURCE);
    let first = |one: FieldRef<'_>, other: FieldRef<'_>| match one.str() {
        "" => other.str().to_owned(),
        text => text.to_owned(),
    };
    let component = first(
        source.at(fields::COMPONENT),
        field_of(event, fields::REPORTING_COMPONENT),
    );
    let instance = first(source.at(fields::HOST), event.at(fields::REPORTING_INSTANCE));
    match instance.as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    }
}

fn count(event: &FieldRef<'_>) -> i64 {
    let series = event.at(fields::SERIES);
    match (series.is_set(), field_of(event, fields::COUNT).int()) {
        (true, _) => series.at(fields::COUNT).int(),
        (false, count) => count.max(1),
    }
}

fn first_seen(event: &FieldRef<'_>, now: Timestamp) -> String {
    let first = field_of(event, fields::FIRST_TIMESTAMP).time();
    let then = first.or_else(|| event.at(fields::EVENT_TIME).time());
    then.map_or_else(|| UNKNOWN.to_owned(), |then| columns::human_age(then, now))
}

fn last_seen(event: &FieldRef<'_>, now: Timestamp) -> String {
    let series = event.at(fields::SERIES);
    let last = match series.is_set() {
        true => series.at(fields::LAST_OBSERVED_TIME),
        false => field_of(event, fields::LAST_TIMESTAMP),
    };
    match last.time() {
        Some(then) => columns::human_age(then, now),
        None if series.is_set() => UNKNOWN.to_owned(),
        None => first_seen(event, now),
    }
}
