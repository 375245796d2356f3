//! Watches as bytes.

use futures_util::FutureExt;
use futures_util::future::poll_fn;
use futures_util::stream;
use setpoint_api::{ResourceVersion, SystemClock};

use super::*;
use crate::metrics::Metrics;
use crate::negotiate::Form;
use crate::respond::tests::{kind, shown, stored};

fn events(stream: Watch, form: Form, stop: &CancellationToken) -> Events {
    let watching = Metrics::default().watching(&kind());
    Events::new(
        stream,
        shown(form),
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
