//! Watches as bytes.

use futures_util::FutureExt;
use futures_util::future::poll_fn;
use futures_util::stream;
use setpoint_api::{ResourceVersion, SystemClock};
use setpoint_codec::protobuf::{decode, envelope};
use setpoint_schema::Pack;

use super::*;
use crate::metrics::Metrics;
use crate::negotiate::Form;
use crate::respond::tests::{kind, shown, stored};

fn events(stream: Watch, form: Form, stop: &CancellationToken) -> Events {
    shown_events(stream, shown(form), stop)
}

fn shown_events(stream: Watch, shown: Shown, stop: &CancellationToken) -> Events {
    let watching = Metrics::default().watching(&kind());
    Events::new(
        stream,
        shown,
        Arc::new(SystemClock::new()),
        stop.clone(),
        watching,
    )
}

/// The frames a watch has ready, and whether it has ended.
fn frames(events: &mut Events) -> (Vec<String>, bool) {
    let mut frames = Vec::new();
    loop {
        match poll_fn(|context| events.poll_frame(context)).now_or_never() {
            Some(Some(frame)) => frames.push(String::from_utf8(frame.to_vec()).unwrap()),
            Some(None) => return (frames, true),
            None => return (frames, false),
        }
    }
}

/// IN18
#[tokio::test]
async fn in18_events_that_are_ready_together_are_lines_of_one_frame() {
    let told = [
        Event::Added(stored("a", 1)),
        Event::Modified(stored("a", 2)),
        Event::Deleted(stored("a", 3)),
    ];
    let mut events = events(
        Box::pin(stream::iter(told)),
        Form::Plain,
        &CancellationToken::new(),
    );
    let (frames, ended) = frames(&mut events);
    assert!(ended);
    assert_eq!(frames.len(), 1);
    let lines: Vec<&str> = frames[0].lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0]
            .starts_with(r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"#)
    );
    assert!(lines[1].starts_with(r#"{"type":"MODIFIED","#) && lines[2].starts_with(r#"{"type":"DELETED","#));
}

#[tokio::test]
async fn bookmarks_have_the_kind_and_the_version_only() {
    let bookmark = |initial_events_end| {
        Event::Bookmark(Bookmark {
            resource_version: ResourceVersion(5),
            initial_events_end,
        })
    };
    let told = [bookmark(false), bookmark(true)];
    let mut events = events(
        Box::pin(stream::iter(told)),
        Form::Plain,
        &CancellationToken::new(),
    );
    let expected = concat!(
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
    );
    assert_eq!(frames(&mut events).0, [expected]);
}

#[tokio::test]
async fn an_error_is_a_status_and_the_last_word() {
    let told = [Event::Error(Box::new(Status::too_old(
        ResourceVersion(1),
        ResourceVersion(5),
    )))];
    let mut events = events(
        Box::pin(stream::iter(told)),
        Form::Plain,
        &CancellationToken::new(),
    );
    let (frames, ended) = frames(&mut events);
    assert!(ended);
    assert!(
        frames[0].starts_with(r#"{"type":"ERROR","object":{"kind":"Status","#),
        "{}",
        frames[0]
    );
    assert!(frames[0].contains("too old resource version: 1 (5)"));
}

#[tokio::test]
async fn only_the_first_table_shows_its_columns() {
    let told = [Event::Added(stored("a", 1)), Event::Added(stored("b", 1))];
    let form = Form::Table("meta.k8s.io/v1");
    let mut events = events(Box::pin(stream::iter(told)), form, &CancellationToken::new());
    let lines: Vec<serde_json::Value> = frames(&mut events).0[0]
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines[0]["object"]["columnDefinitions"].is_array());
    assert!(lines[1]["object"]["columnDefinitions"].is_null());
    assert_eq!(lines[1]["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn a_watch_ends_cleanly_when_the_server_stops() {
    let stop = CancellationToken::new();
    let mut events = events(Box::pin(stream::pending()), Form::Plain, &stop);
    assert_eq!(frames(&mut events), (vec![], false));
    stop.cancel();
    assert_eq!(frames(&mut events), (vec![], true));
}

#[tokio::test]
async fn metadata_watches_send_metadata_only() {
    let told = [Event::Added(stored("a", 1))];
    let mut events = events(
        Box::pin(stream::iter(told)),
        Form::Metadata("meta.k8s.io/v1"),
        &CancellationToken::new(),
    );
    let (frames, _) = frames(&mut events);
    assert!(frames[0].starts_with(r#"{"type":"ADDED","object":{"kind":"PartialObjectMetadata","#));
    assert!(!frames[0].contains("data\":{\"k\""));
}

/// The frames of protobuf that a watch has ready, each as its event, its kind and its object in JSON.
fn binary(told: Vec<Event>, form: Form) -> Vec<String> {
    let shown = Shown {
        format: Format::Protobuf,
        ..shown(form)
    };
    let stop = CancellationToken::new();
    let mut events = shown_events(Box::pin(stream::iter(told)), shown, &stop);
    let sent = poll_fn(|context| events.poll_frame(context)).now_or_never();
    let sent = sent.flatten().unwrap();
    let (mut rest, mut seen) = (&sent[..], Vec::new());
    while let Some((one, others)) = frame::split(rest) {
        let (name, object) = frame::open(one).unwrap();
        let TypeMeta { api_version, kind } = envelope::open(object).unwrap().type_meta;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let shape = Pack::builtin().shape_of(group, version, &kind).unwrap();
        let json = setpoint_codec::json::write(&decode(object, shape).unwrap().1);
        seen.push(format!(
            "{name} {api_version} {kind} {}",
            String::from_utf8(json).unwrap()
        ));
        rest = others;
    }
    assert!(rest.is_empty(), "nothing follows the last frame");
    seen
}

/// IN18
#[tokio::test]
async fn in18_a_watch_in_protobuf_sends_frames() {
    let told = vec![
        Event::Added(stored("a", 1)),
        Event::Deleted(stored("a", 0)),
        Event::Bookmark(Bookmark {
            resource_version: ResourceVersion(5),
            initial_events_end: true,
        }),
    ];
    let metadata = r#""metadata":{"name":"a","namespace":"a","resourceVersion":"7"}"#;
    assert_eq!(
        binary(told, Form::Plain),
        [
            format!(r#"ADDED v1 ConfigMap {{{metadata},"data":{{"k":"x"}}}}"#),
            format!(r#"DELETED v1 ConfigMap {{{metadata},"data":{{"k":""}}}}"#),
            "BOOKMARK v1 ConfigMap {\"metadata\":{\"resourceVersion\":\"5\",\
             \"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}"
                .to_owned(),
        ]
    );
}

#[tokio::test]
async fn metadata_is_watched_in_protobuf_too() {
    let seen = binary(
        vec![Event::Added(stored("a", 1))],
        Form::Metadata("meta.k8s.io/v1"),
    );
    let metadata = r#"{"metadata":{"name":"a","namespace":"a","resourceVersion":"7"}}"#;
    // A list's form stands for its objects in a watch.
    let listed = binary(
        vec![Event::Added(stored("a", 1))],
        Form::MetadataList("meta.k8s.io/v1"),
    );
    assert_eq!(
        seen,
        [format!("ADDED meta.k8s.io/v1 PartialObjectMetadata {metadata}")]
    );
    assert_eq!(listed, seen);
}

#[tokio::test]
async fn an_error_in_protobuf_is_a_status() {
    let status = Status::too_old(ResourceVersion(1), ResourceVersion(5));
    let seen = binary(vec![Event::Error(Box::new(status))], Form::Plain);
    assert!(seen[0].starts_with("ERROR v1 Status {"), "{seen:?}");
    assert!(seen[0].contains("too old resource version: 1 (5)"), "{seen:?}");
}
