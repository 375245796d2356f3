//! Bytes of a watch.

use futures_util::FutureExt;
use futures_util::future::poll_fn;
use futures_util::stream;
use setpoint_api::{ResourceVersion, SystemClock};
use setpoint_codec::protobuf::{decode, envelope};
use setpoint_schema::Pack;

use super::*;
use crate::metrics::Metrics;
use crate::negotiate::Representation;
use crate::respond::tests::{kind, render_options, stored};

fn events(stream: Watch, representation: Representation, stop: &CancellationToken) -> WatchBody {
    rendered_events(stream, render_options(representation), stop)
}

fn rendered_events(stream: Watch, render: RenderOptions, stop: &CancellationToken) -> WatchBody {
    let open_watch = Metrics::default().start_watch(&kind());
    WatchBody::new(
        stream,
        render,
        Arc::new(SystemClock::new()),
        stop.clone(),
        open_watch,
    )
}

/// The frames a watch has ready, and whether it has ended.
fn frames(events: &mut WatchBody) -> (Vec<String>, bool) {
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
    let sent = [
        Event::Added(stored("a", 1)),
        Event::Modified(stored("a", 2)),
        Event::Deleted(stored("a", 3)),
    ];
    let mut events = events(
        Box::pin(stream::iter(sent)),
        Representation::Plain,
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
    let sent = [bookmark(false), bookmark(true)];
    let mut events = events(
        Box::pin(stream::iter(sent)),
        Representation::Plain,
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
async fn an_error_is_a_status_and_ends_the_watch() {
    let sent = [Event::Error(Box::new(Status::too_old_resource_version(
        ResourceVersion(1),
        ResourceVersion(5),
    )))];
    let mut events = events(
        Box::pin(stream::iter(sent)),
        Representation::Plain,
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
async fn only_the_first_table_has_its_columns() {
    let sent = [Event::Added(stored("a", 1)), Event::Added(stored("b", 1))];
    let representation = Representation::Table("meta.k8s.io/v1");
    let mut events = events(
        Box::pin(stream::iter(sent)),
        representation,
        &CancellationToken::new(),
    );
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
    let mut events = events(Box::pin(stream::pending()), Representation::Plain, &stop);
    assert_eq!(frames(&mut events), (vec![], false));
    stop.cancel();
    assert_eq!(frames(&mut events), (vec![], true));
}

#[tokio::test]
async fn metadata_watches_send_metadata_only() {
    let sent = [Event::Added(stored("a", 1))];
    let mut events = events(
        Box::pin(stream::iter(sent)),
        Representation::Metadata("meta.k8s.io/v1"),
        &CancellationToken::new(),
    );
    let (frames, _) = frames(&mut events);
    assert!(frames[0].starts_with(r#"{"type":"ADDED","object":{"kind":"PartialObjectMetadata","#));
    assert!(!frames[0].contains("data\":{\"k\""));
}

/// The protobuf frames that a watch has ready, each as event type, kind and object in JSON.
fn protobuf_events(sent: Vec<Event>, representation: Representation) -> Vec<String> {
    let render = RenderOptions {
        format: Format::Protobuf,
        ..render_options(representation)
    };
    let stop = CancellationToken::new();
    let mut events = rendered_events(Box::pin(stream::iter(sent)), render, &stop);
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
    let sent = vec![
        Event::Added(stored("a", 1)),
        Event::Deleted(stored("a", 0)),
        Event::Bookmark(Bookmark {
            resource_version: ResourceVersion(5),
            initial_events_end: true,
        }),
    ];
    let metadata = r#""metadata":{"name":"a","namespace":"a","resourceVersion":"7"}"#;
    assert_eq!(
        protobuf_events(sent, Representation::Plain),
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
    let seen = protobuf_events(
        vec![Event::Added(stored("a", 1))],
        Representation::Metadata("meta.k8s.io/v1"),
    );
    let metadata = r#"{"metadata":{"name":"a","namespace":"a","resourceVersion":"7"}}"#;
    // In a watch, the list's representation applies to its objects.
    let listed = protobuf_events(
        vec![Event::Added(stored("a", 1))],
        Representation::MetadataList("meta.k8s.io/v1"),
    );
    assert_eq!(
        seen,
        [format!("ADDED meta.k8s.io/v1 PartialObjectMetadata {metadata}")]
    );
    assert_eq!(listed, seen);
}

#[tokio::test]
async fn an_error_in_protobuf_is_a_status() {
    let status = Status::too_old_resource_version(ResourceVersion(1), ResourceVersion(5));
    let seen = protobuf_events(vec![Event::Error(Box::new(status))], Representation::Plain);
    assert!(seen[0].starts_with("ERROR v1 Status {"), "{seen:?}");
    assert!(seen[0].contains("too old resource version: 1 (5)"), "{seen:?}");
}
