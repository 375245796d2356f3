//! Watches in a version that is not stored.

use futures_util::StreamExt;
use serde_json::json;

use setpoint_api::options::{DeleteOptions, PatchType, ResourceVersionMatch, WatchOptions};
use setpoint_api::{Event, Verb, Watch};

use crate::cluster::value;
use crate::fixture::{Behavior, Widgets, one};

/// The next event with the spec of its object: `ADDED a {"address":"h:1"}`.
async fn next(watch: &mut Watch) -> String {
    let text = |event: &str, object: &setpoint_api::Stored| {
        let mut spec = value(object)["spec"].clone();
        spec.as_object_mut().unwrap().remove("size");
        format!("{event} {} {spec}", object.key().name())
    };
    match watch.next().await {
        None => "end".to_owned(),
        Some(Event::Added(object)) => text("ADDED", &object),
        Some(Event::Modified(object)) => text("MODIFIED", &object),
        Some(Event::Deleted(object)) => text("DELETED", &object),
        Some(Event::Bookmark(bookmark)) => format!("BOOKMARK {}", bookmark.initial_events_end),
        Some(Event::Error(status)) => format!("ERROR {}", status.message),
    }
}

#[tokio::test]
async fn events_are_in_the_requested_version_and_in_order() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    let mut watch = widgets.watch("v1", WatchOptions::default()).await;
    assert_eq!(next(&mut watch).await, r#"ADDED a {"address":"h:1"}"#);
    widgets
        .create("v1", "b", json!({"address": "i:2"}))
        .await
        .unwrap();
    let patch = json!({"spec": {"host": "j"}});
    widgets
        .patch(one("v2", "b"), PatchType::Merge, patch)
        .await
        .unwrap();
    let delete = Verb::Delete(DeleteOptions::default());
    widgets.call(one("v2", "a"), delete).await.unwrap();
    assert_eq!(next(&mut watch).await, r#"ADDED b {"address":"i:2"}"#);
    assert_eq!(next(&mut watch).await, r#"MODIFIED b {"address":"j:2"}"#);
    assert_eq!(next(&mut watch).await, r#"DELETED a {"address":"h:1"}"#);
}

#[tokio::test]
async fn a_deleted_object_has_the_version_of_its_deletion() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    let mut watches = [
        widgets.watch("v1", WatchOptions::default()).await,
        widgets.watch("v2", WatchOptions::default()).await,
    ];
    let mut versions = Vec::new();
    widgets
        .call(one("v2", "a"), Verb::Delete(DeleteOptions::default()))
        .await
        .unwrap();
    for watch in &mut watches {
        let Some(Event::Added(_)) = watch.next().await else {
            panic!("the object is there first");
        };
        let Some(Event::Deleted(last)) = watch.next().await else {
            panic!("the object is deleted then");
        };
        versions.push(value(&last)["metadata"]["resourceVersion"].clone());
    }
    assert_eq!(versions[0], versions[1]);
}

#[tokio::test]
async fn the_initial_events_end_with_a_bookmark() {
    let widgets = Widgets::start().await;
    for name in ["a", "b"] {
        widgets
            .create("v2", name, json!({"host": "h", "port": "1"}))
            .await
            .unwrap();
    }
    let options = WatchOptions {
        send_initial_events: Some(true),
        allow_watch_bookmarks: true,
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        ..WatchOptions::default()
    };
    let mut watch = widgets.watch("v1", options).await;
    assert_eq!(next(&mut watch).await, r#"ADDED a {"address":"h:1"}"#);
    assert_eq!(next(&mut watch).await, r#"ADDED b {"address":"h:1"}"#);
    assert_eq!(next(&mut watch).await, "BOOKMARK true");
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a b"]);
}

#[tokio::test]
async fn an_event_is_converted_once_for_all_watches() {
    let widgets = Widgets::start().await;
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(widgets.watch("v1", WatchOptions::default()).await);
    }
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    for watch in &mut watches {
        assert_eq!(next(watch).await, r#"ADDED a {"address":"h:1"}"#);
    }
    assert_eq!(widgets.webhook.take_reviews(), ["v1: a"]);
}

#[tokio::test]
async fn an_object_starts_and_stops_to_be_selected_by_its_converted_fields() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    let options = WatchOptions {
        fields: "spec.address=h:2".parse().unwrap(),
        ..WatchOptions::default()
    };
    let mut watch = widgets.watch("v1", options).await;
    for port in ["2", "3"] {
        let patch = json!({"spec": {"port": port}});
        widgets
            .patch(one("v2", "a"), PatchType::Merge, patch)
            .await
            .unwrap();
    }
    assert_eq!(next(&mut watch).await, r#"ADDED a {"address":"h:2"}"#);
    assert_eq!(next(&mut watch).await, r#"DELETED a {"address":"h:2"}"#);
}

#[tokio::test]
async fn a_failed_conversion_ends_the_watch_with_an_error() {
    let widgets = Widgets::start().await;
    let mut watch = widgets.watch("v1", WatchOptions::default()).await;
    let mut stored = widgets.watch("v2", WatchOptions::default()).await;
    widgets.webhook.set(Behavior::Unreachable);
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    assert_eq!(next(&mut stored).await, r#"ADDED a {"host":"h","port":"1"}"#);
    let error = next(&mut watch).await;
    let expected = "conversion webhook for example.com/v2, Kind=Widget failed: connection refused";
    assert!(
        error.starts_with("ERROR ") && error.ends_with(expected),
        "{error}"
    );
    assert_eq!(next(&mut watch).await, "end");
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_up_no_other_watch() {
    let widgets = Widgets::start().await;
    widgets.webhook.set(Behavior::Hang);
    let mut waiting = widgets.watch("v1", WatchOptions::default()).await;
    let mut stored = widgets.watch("v2", WatchOptions::default()).await;
    for name in ["a", "b"] {
        widgets
            .create("v2", name, json!({"host": name, "port": "1"}))
            .await
            .unwrap();
        let event = next(&mut stored);
        tokio::select! {
            biased;
            never = next(&mut waiting) => panic!("{never}"),
            event = event => assert_eq!(event, format!(r#"ADDED {name} {{"host":"{name}","port":"1"}}"#)),
        }
    }
    drop(waiting);
    widgets.webhook.set(Behavior::Convert);
    let mut watch = widgets.watch("v1", WatchOptions::default()).await;
    assert_eq!(next(&mut watch).await, r#"ADDED a {"address":"a:1"}"#);
}
