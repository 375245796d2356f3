//! Lists and watches: selectors, starting points, bookmarks, ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::time::Duration;

use cluster::{Cluster, config_map, next, parse, pod, value};
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use setpoint_api::options::{ListOptions, ResourceVersionMatch, WatchOptions};
use setpoint_api::{Event, ResourceVersion, Watch};

fn labels(selector: &str) -> WatchOptions {
    WatchOptions {
        labels: selector.parse().unwrap(),
        ..WatchOptions::default()
    }
}

fn is_quiet(watch: &mut Watch) -> bool {
    watch.next().now_or_never().is_none()
}

#[tokio::test]
async fn a_list_selects_by_labels_and_fields() {
    let cluster = Cluster::start().await;
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n1")] {
        let mut body = parse(&pod(name));
        body["spec"]["nodeName"] = node.into();
        body["metadata"]["labels"] = json!({"app": name});
        cluster.create(&body.to_string()).await.unwrap();
    }
    for (selector, fields, expected) in [
        ("", "spec.nodeName=n1", vec!["a", "c"]),
        ("app in (a,b)", "", vec!["a", "b"]),
        ("app!=a", "spec.nodeName=n1", vec!["c"]),
        ("", "metadata.name=b", vec!["b"]),
        ("", "metadata.namespace=default,metadata.name=b", vec!["b"]),
        ("", "metadata.namespace=elsewhere", vec![]),
        (
            "",
            "status.phase=Pending,spec.hostNetwork=false",
            vec!["a", "b", "c"],
        ),
        ("", "spec.nodeName!=n1", vec!["b"]),
    ] {
        let options = ListOptions {
            labels: selector.parse().unwrap(),
            fields: fields.parse().unwrap(),
            ..ListOptions::default()
        };
        let list = cluster.list("pods", options).await.unwrap();
        let names: Vec<&str> = list.items.iter().map(|item| item.key().name()).collect();
        assert_eq!(names, expected, "{selector} {fields}");
    }
}

#[tokio::test]
async fn events_are_selected_by_the_words_of_either_version() {
    let cluster = Cluster::start().await;
    let event = r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e","namespace":"default"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"reason":"R"}"#;
    cluster.create(event).await.unwrap();
    for (resource, field, count) in [
        ("events", "involvedObject.kind=Pod", 1),
        ("events.events.k8s.io", "regarding.kind=Pod", 1),
        ("events.events.k8s.io", "regarding.kind=Node", 0),
        ("events.events.k8s.io", "regarding.name!=p", 0),
    ] {
        let options = ListOptions {
            fields: field.parse().unwrap(),
            ..ListOptions::default()
        };
        let list = cluster.list(resource, options).await.unwrap();
        assert_eq!(list.items.len(), count, "{resource} {field}");
    }
}

#[tokio::test]
async fn an_unsupported_field_selector_is_rejected_with_the_message_of_its_kind() {
    let cluster = Cluster::start().await;
    for (resource, field, expected) in [
        ("pods", "spec.bogus", "field label not supported: spec.bogus"),
        (
            "nodes",
            "metadata.namespace",
            "field label not supported: metadata.namespace",
        ),
        (
            "jobs.batch",
            "status.succeeded",
            "field label \"status.succeeded\" not supported for Job",
        ),
        (
            "resourceslices.resource.k8s.io",
            "x",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
        ),
        (
            "configmaps",
            "data.a",
            "\"data.a\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
    ] {
        let options = ListOptions {
            fields: format!("{field}=x").parse().unwrap(),
            ..ListOptions::default()
        };
        let status = cluster.list(resource, options).await.unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, expected));
    }
}

#[tokio::test]
async fn invalid_list_options_are_rejected() {
    let cluster = Cluster::start().await;
    let check = |options: ListOptions, code: u16, text: &'static str| {
        let list = cluster.list("configmaps", options);
        async move {
            let status = list.await.unwrap_err();
            assert_eq!((status.code, status.message.as_str()), (code, text));
        }
    };
    let some = |resource_version_match, resource_version| ListOptions {
        resource_version_match,
        resource_version,
        ..ListOptions::default()
    };
    check(
        some(Some(ResourceVersionMatch::NotOlderThan), None),
        422,
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
    )
    .await;
    check(
        some(Some(ResourceVersionMatch::Exact), Some(ResourceVersion::ZERO)),
        422,
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
    )
    .await;
    let continued = ListOptions {
        continue_token: Some("x".to_owned()),
        ..some(None, Some(ResourceVersion(1)))
    };
    check(
        continued,
        400,
        "specifying resource version is not allowed when using continue",
    )
    .await;
}

#[tokio::test]
async fn a_watch_starts_with_what_is_there() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("b")).await.unwrap();
    cluster.create(&config_map("a")).await.unwrap();
    let mut watch = cluster
        .watch("configmaps", WatchOptions::default())
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await, "ADDED default/a");
    assert_eq!(next(&mut watch).await, "ADDED default/b");
    assert!(is_quiet(&mut watch));
    cluster.create(&config_map("c")).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED default/c");
}

/// IN2
#[tokio::test]
async fn in2_a_watch_goes_on_where_another_ended() {
    let cluster = Cluster::start().await;
    let first = cluster.create(&config_map("a")).await.unwrap();
    cluster.create(&config_map("b")).await.unwrap();
    let options = WatchOptions {
        resource_version: Some(first.resource_version()),
        ..WatchOptions::default()
    };
    let mut watch = cluster.watch("configmaps", options).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED default/b");
}

/// IN2
#[tokio::test]
async fn in2_a_watch_from_a_compacted_revision_gets_an_error_and_ends() {
    let cluster = Cluster::start().await;
    let first = cluster.create(&config_map("a")).await.unwrap();
    cluster.create(&config_map("b")).await.unwrap();
    let store = cluster.registry.store();
    cluster.list("configmaps", ListOptions::default()).await.unwrap();
    cluster.clock.advance(Duration::from_secs(3600));
    while store.compacted().get() <= first.resource_version().0 {
        cluster.clock.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
    }
    let options = WatchOptions {
        resource_version: Some(first.resource_version()),
        ..WatchOptions::default()
    };
    let mut watch = cluster.watch("configmaps", options).await.unwrap();
    assert_eq!(next(&mut watch).await, "ERROR 410");
    assert_eq!(next(&mut watch).await, "end");
}

#[tokio::test]
async fn an_object_that_starts_to_match_appears_and_one_that_stops_disappears() {
    let cluster = Cluster::start().await;
    let mut watch = cluster.watch("configmaps", labels("color=red")).await.unwrap();
    let mut object = value(&cluster.create(&config_map("a")).await.unwrap());
    for (color, expected) in [
        ("red", Some("ADDED default/a")),
        ("red", None),
        ("blue", Some("DELETED default/a")),
        ("green", None),
        ("red", Some("ADDED default/a")),
    ] {
        object["metadata"]["labels"] = json!({"color": color});
        object = value(&cluster.update(&object, "").await.unwrap());
        if let Some(expected) = expected {
            assert_eq!(next(&mut watch).await, expected);
        }
    }
    cluster
        .delete("configmaps", "default/a", Default::default())
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await, "DELETED default/a");
}

#[tokio::test]
async fn what_disappears_shows_its_last_selected_state_under_the_new_version() {
    let cluster = Cluster::start().await;
    let mut body = parse(&config_map("a"));
    body["metadata"]["labels"] = json!({"color": "red"});
    let mut object = value(&cluster.create(&body.to_string()).await.unwrap());
    let mut watch = cluster.watch("configmaps", labels("color=red")).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED default/a");
    object["metadata"]["labels"]["color"] = "blue".into();
    let blue = cluster.update(&object, "").await.unwrap();
    let Some(Event::Deleted(last)) = watch.next().await else {
        panic!("no deletion")
    };
    assert_eq!(value(&last)["metadata"]["labels"]["color"], "red");
    assert_eq!(last.resource_version(), blue.resource_version());
    let shown = value(&last)["metadata"]["resourceVersion"].clone();
    assert_eq!(shown, blue.resource_version().to_string().as_str());
}

#[tokio::test]
async fn a_deletion_shows_the_last_state_under_the_version_of_the_deletion() {
    let cluster = Cluster::start().await;
    let made = cluster.create(&config_map("a")).await.unwrap();
    let mut watch = cluster
        .watch("configmaps", WatchOptions::default())
        .await
        .unwrap();
    assert_eq!(next(&mut watch).await, "ADDED default/a");
    cluster
        .delete("configmaps", "default/a", Default::default())
        .await
        .unwrap();
    let Some(Event::Deleted(last)) = watch.next().await else {
        panic!("no deletion")
    };
    assert!(last.resource_version() > made.resource_version());
    assert_eq!(value(&last)["data"]["a"], "1");
    let shown = value(&last)["metadata"]["resourceVersion"].clone();
    assert_eq!(shown, last.resource_version().to_string().as_str());
}

#[tokio::test]
async fn a_streamed_list_ends_with_a_bookmark() {
    let cluster = Cluster::start().await;
    cluster.create(&config_map("a")).await.unwrap();
    let options = WatchOptions {
        send_initial_events: Some(true),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        allow_watch_bookmarks: true,
        ..WatchOptions::default()
    };
    let mut watch = cluster.watch("configmaps", options).await.unwrap();
    assert_eq!(next(&mut watch).await, "ADDED default/a");
    assert_eq!(next(&mut watch).await, "BOOKMARK end");
    let options = WatchOptions {
        send_initial_events: Some(true),
        ..WatchOptions::default()
    };
    let status = cluster.watch("configmaps", options).await.err().unwrap();
    assert_eq!(status.code, 422);
}

#[tokio::test]
async fn a_quiet_watch_is_marked_each_minute_and_ends_in_time() {
    let cluster = Cluster::start().await;
    let made = cluster.create(&config_map("a")).await.unwrap();
    let options = WatchOptions {
        resource_version: Some(made.resource_version()),
        allow_watch_bookmarks: true,
        timeout: Some(Duration::from_secs(90)),
        ..WatchOptions::default()
    };
    let mut watch = cluster.watch("configmaps", options).await.unwrap();
    assert!(is_quiet(&mut watch));
    let other = cluster.create(&pod("p")).await.unwrap();
    cluster.list("pods", ListOptions::default()).await.unwrap();
    cluster.clock.advance(Duration::from_secs(60));
    let Some(Event::Bookmark(mark)) = watch.next().await else {
        panic!("no bookmark")
    };
    assert!(mark.resource_version >= other.resource_version());
    cluster.clock.advance(Duration::from_secs(28));
    assert_eq!(next(&mut watch).await, "BOOKMARK");
    cluster.clock.advance(Duration::from_secs(2));
    assert_eq!(next(&mut watch).await, "end");
}
