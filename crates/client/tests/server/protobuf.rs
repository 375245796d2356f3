//! Objects received as protobuf equal those received as JSON, byte for byte.

use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use setpoint_api::options::{DeleteOptions, ListOptions, ResourceVersionMatch, WatchOptions};
use setpoint_api::{Event, Gvr, Watch};
use setpoint_client::{Client, Object};
use setpoint_testkit::{config_map, deployment, pod};

use crate::{Clients, client_over};

async fn fill(client: &Client) {
    let web = pod("web").label("app", "web").requesting("cpu", "100m").on("n1");
    client.namespaced("default").create(&web.build()).await.unwrap();
    client
        .namespaced("default")
        .create(&deployment("web").replicas(2).build())
        .await
        .unwrap();
    for name in ["a", "b", "c"] {
        client
            .namespaced("default")
            .create(&config_map(name, "key", "größe"))
            .await
            .unwrap();
    }
}

/// All objects of a resource as JSON, listed in pages of two, and the metadata of the first page.
async fn listed(client: &Client, resource: Gvr) -> (Vec<String>, String) {
    let options = ListOptions {
        limit: Some(2),
        ..ListOptions::default()
    };
    let objects = client.dynamic(resource, "");
    let first = objects.list(&options).await.unwrap();
    let about = format!("{} {:?}", first.resource_version, first.remaining_item_count);
    let (mut pages, mut items) = (objects.pages(options), Vec::new());
    while let Some(item) = pages.next().await {
        let item = item.unwrap();
        items.push(format!("{item:?} {}", String::from_utf8_lossy(item.json())));
    }
    (items, about)
}

#[tokio::test]
async fn lists_are_the_same_in_both_formats() {
    let clients = Clients::start().await;
    fill(&clients.cluster.client("test")).await;
    let notes = clients.cluster.define_custom_kind("notes", "Note").await;
    let note =
        json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "x"}, "text": "hello"});
    let local = clients.cluster.client("test").dynamic(notes.clone(), "default");
    local.create(note.to_string()).await.unwrap();
    let namespaces = Gvr::new("", "v1", "namespaces");
    let slices = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    for resource in [
        Pod::resource(),
        Deployment::resource(),
        ConfigMap::resource(),
        namespaces,
        slices,
        notes,
    ] {
        for http in [clients.json.clone(), clients.json.metadata_only()] {
            let (json, protobuf) = (client_over(http.clone()), client_over(http.protobuf()));
            let expected = listed(&json, resource.clone()).await;
            assert!(!expected.0.is_empty(), "{resource:?}");
            assert_eq!(listed(&protobuf, resource.clone()).await, expected);
        }
    }
}

/// Without this, the tests here might compare JSON with itself.
#[tokio::test]
async fn the_server_responds_in_protobuf_on_request() {
    let clients = Clients::start().await;
    fill(&clients.cluster.client("test")).await;
    let accept = "application/vnd.kubernetes.protobuf,application/json";
    let bytes = clients.json.get_as("/api/v1/pods", accept).await.unwrap();
    assert!(bytes.starts_with(b"k8s\0"));
}

#[tokio::test]
async fn a_write_in_protobuf_equals_one_in_json() {
    let clients = Clients::start().await;
    let mut written = Vec::new();
    for (kind, client) in clients.all() {
        let pods = client.namespaced::<Pod>("default");
        let mut web = pod("web").label("app", "web").requesting("cpu", "0.1").build();
        web.metadata.annotations = Some([("kind".to_owned(), "any".to_owned())].into());
        let created = pods.create(&web).await.unwrap();
        let mut changed = created.to_owned().unwrap();
        changed
            .meta_mut()
            .labels
            .get_or_insert_default()
            .insert("tier".to_owned(), "front".to_owned());
        let updated = pods.update(&changed).await.unwrap();
        let stale = pods.update(&changed).await.unwrap_err();
        assert!(stale.is_conflict(), "{kind}: {stale}");
        let twice = pods.create(&web).await.unwrap_err();
        assert!(twice.is_already_exists(), "{kind}: {twice}");
        assert_eq!(twice.details.unwrap().name, "web", "{kind}");
        let mut shown = updated.to_owned().unwrap();
        let meta = shown.meta_mut();
        (meta.uid, meta.resource_version, meta.creation_timestamp) = (None, None, None);
        meta.managed_fields = None;
        written.push(serde_json::to_string(&shown).unwrap());
        let now = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        pods.delete("web", now).await.unwrap();
        let missing = pods.get("web").await.unwrap_err();
        assert_eq!(missing.message, "pods \"web\" not found", "{kind}");
    }
    assert_eq!(written[0], written[1]);
    assert_eq!(written[1], written[2]);
}

async fn next(watch: &mut Watch) -> String {
    let shown = |event: &Event| match event {
        Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => {
            String::from_utf8_lossy(object.json()).into_owned()
        }
        _ => String::new(),
    };
    let event = watch.next().await.unwrap();
    format!("{event:?} {}", shown(&event))
}

#[tokio::test]
async fn watches_are_the_same_in_both_formats() {
    let clients = Clients::start().await;
    let local = clients.cluster.client("test");
    fill(&local).await;
    let options = WatchOptions {
        send_initial_events: Some(true),
        resource_version_match: Some(ResourceVersionMatch::NotOlderThan),
        allow_watch_bookmarks: true,
        ..WatchOptions::default()
    };
    let mut watches = Vec::new();
    for http in [clients.json.clone(), clients.json.protobuf()] {
        let maps = client_over(http).all::<ConfigMap>();
        watches.push(maps.watch(&options).await.unwrap());
    }
    let maps = local.namespaced::<ConfigMap>("default");
    maps.update(&config_map("a", "key", "other")).await.unwrap();
    maps.delete("b", DeleteOptions::default()).await.unwrap();
    let mut kinds = Vec::new();
    while !kinds.contains(&"Deleted".to_owned()) {
        let (json, protobuf) = (next(&mut watches[0]).await, next(&mut watches[1]).await);
        assert_eq!(json, protobuf);
        kinds.push(json.split('(').next().unwrap().to_owned());
    }
    assert!(kinds.contains(&"Bookmark".to_owned()), "{kinds:?}");
    assert!(kinds.contains(&"Modified".to_owned()), "{kinds:?}");
}
