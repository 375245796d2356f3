//! Optimistic concurrency: mission rows OC1 to OC11 and TR8, as far as they need no HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::sync::Arc;

use cluster::{Cluster, config_map, next, pod, value};
use setpoint_api::options::{ListOptions, ResourceVersionMatch, WatchOptions, WriteOptions};
use setpoint_api::{ResourceVersion, Stored};
use setpoint_registry_api::{Admit, AdmitFuture, Review};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const MODIFIED: &str = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";

/// OC1
#[tokio::test]
async fn oc1_of_a_hundred_updates_from_one_revision_one_succeeds() {
    let cluster = Arc::new(Cluster::start().await);
    let read = value(&cluster.create(&config_map("a")).await.unwrap());
    let mut writers = JoinSet::new();
    for n in 0..100 {
        let (cluster, mut mine) = (cluster.clone(), read.clone());
        mine["data"]["a"] = format!("writer {n}").into();
        writers.spawn(async move { cluster.update(&mine, "").await });
    }
    let results = writers.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 99));
    for status in lost.into_iter().map(Result::unwrap_err) {
        assert_eq!((status.code, status.message.as_str()), (409, MODIFIED));
        assert_eq!(status.reason, "Conflict");
    }
}

/// OC2
#[tokio::test]
async fn oc2_a_versioned_update_is_never_retried_by_the_server() {
    let cluster = Cluster::start().await;
    let mut read = value(&cluster.create(&config_map("a")).await.unwrap());
    let first = cluster.update(&changed(&read, "2"), "").await.unwrap();
    read["data"]["a"] = "3".into();
    assert_eq!(cluster.update(&read, "").await.unwrap_err().message, MODIFIED);
    let now = cluster.get("configmaps", "default/a").await.unwrap();
    assert_eq!(now.resource_version(), first.resource_version());
}

/// Admission that waits while it reviews an object with this data, until the test lets it go on.
struct WaitingAdmission {
    entered: Semaphore,
    go_on: Semaphore,
}

impl Admit for WaitingAdmission {
    fn mutate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async move {
            let object = review.object.as_ref();
            if object.and_then(|object| object.str_at(&["data", "a"])) == Some("waits") {
                self.entered.add_permits(1);
                self.go_on.acquire().await.unwrap().forget();
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, _review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(async { Ok(()) })
    }
}

/// OC2: as in Kubernetes, the object is read again after the conflict.
#[tokio::test]
async fn oc2_a_versioned_update_of_an_object_that_is_deleted_meanwhile_is_not_found() {
    let admission = Arc::new(WaitingAdmission {
        entered: Semaphore::new(0),
        go_on: Semaphore::new(0),
    });
    let cluster = Arc::new(Cluster::with_admission(admission.clone()).await);
    let read = value(&cluster.create(&config_map("a")).await.unwrap());
    let mut update = JoinSet::new();
    let (writer, body) = (cluster.clone(), changed(&read, "waits"));
    update.spawn(async move { writer.update(&body, "").await });
    admission.entered.acquire().await.unwrap().forget();
    let deleted = cluster
        .delete("configmaps", "default/a", Default::default())
        .await;
    deleted.unwrap();
    admission.go_on.add_permits(1);
    let status = update.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (404, "configmaps \"a\" not found")
    );
}

/// OC3
#[tokio::test]
async fn oc3_the_version_is_in_gets_lists_and_watch_events() {
    let cluster = Cluster::start().await;
    let created = cluster.create(&config_map("a")).await.unwrap();
    let text = created.resource_version().to_string();
    let shown = |object: &Stored| value(object)["metadata"]["resourceVersion"].clone();
    assert_eq!(shown(&created), text.as_str());
    let got = cluster.get("configmaps", "default/a").await.unwrap();
    assert_eq!(shown(&got), text.as_str());
    let list = cluster.list("configmaps", ListOptions::default()).await.unwrap();
    assert_eq!(shown(&list.items[0]), text.as_str());
    assert!(list.resource_version >= created.resource_version());
}

/// OC4
#[tokio::test]
async fn oc4_a_write_with_the_version_read_before_another_write_fails() {
    let cluster = Cluster::start().await;
    let read = value(&cluster.create(&pod("a")).await.unwrap());
    let mut annotated = read.clone();
    annotated["metadata"]["annotations"] = serde_json::json!({"by": "the first writer"});
    cluster.update(&annotated, "").await.unwrap();
    let mut running = read.clone();
    running["status"]["phase"] = "Running".into();
    assert!(
        cluster
            .update(&running, "status")
            .await
            .unwrap_err()
            .is_conflict()
    );
    let fresh = value(&cluster.get("pods", "default/a").await.unwrap());
    running["metadata"]["resourceVersion"] = fresh["metadata"]["resourceVersion"].clone();
    cluster.update(&running, "status").await.unwrap();
}

/// OC6
#[tokio::test]
async fn oc6_versions_grow_over_all_writes_and_are_one_space_with_lists() {
    let cluster = Cluster::start().await;
    let mut last = ResourceVersion::ZERO;
    for name in ["a", "b", "c"] {
        let map = cluster.create(&config_map(name)).await.unwrap();
        let pod = cluster.create(&pod(name)).await.unwrap();
        assert!(last < map.resource_version() && map.resource_version() < pod.resource_version());
        last = pod.resource_version();
    }
    let list = cluster.list("configmaps", ListOptions::default()).await.unwrap();
    assert_eq!(list.resource_version, last);
}

/// OC11
#[tokio::test]
async fn oc11_pages_are_one_snapshot_while_writers_go_on() {
    let cluster = Cluster::start().await;
    for n in 0..10 {
        cluster.create(&config_map(&format!("m{n}"))).await.unwrap();
    }
    let mut options = ListOptions {
        limit: Some(3),
        ..ListOptions::default()
    };
    let mut names = Vec::new();
    let mut versions = Vec::new();
    loop {
        let page = cluster.list("configmaps", options.clone()).await.unwrap();
        names.extend(page.items.iter().map(|item| item.key().name().to_owned()));
        versions.push(page.resource_version);
        cluster
            .create(&config_map(&format!("n{}", names.len())))
            .await
            .unwrap();
        if names.len() < 10 {
            let ahead = format!("default/m{}", names.len());
            cluster
                .delete("configmaps", &ahead, Default::default())
                .await
                .unwrap();
        }
        let Some(token) = page.continue_token else {
            assert_eq!(page.remaining_item_count, None);
            break;
        };
        assert_eq!(page.remaining_item_count, Some(10 - names.len() as u64));
        options.continue_token = Some(token);
    }
    let expected: Vec<String> = (0..10).map(|n| format!("m{n}")).collect();
    assert_eq!(names, expected);
    assert!(versions.iter().all(|version| *version == versions[0]));
}

/// OC11
#[tokio::test]
async fn oc11_an_exact_old_list_returns_the_objects_of_that_version() {
    let cluster = Cluster::start().await;
    let first = cluster.create(&config_map("a")).await.unwrap();
    cluster.update(&changed(&value(&first), "2"), "").await.unwrap();
    cluster.create(&config_map("b")).await.unwrap();
    let options = ListOptions {
        resource_version: Some(first.resource_version()),
        resource_version_match: Some(ResourceVersionMatch::Exact),
        ..ListOptions::default()
    };
    let list = cluster.list("configmaps", options).await.unwrap();
    assert_eq!(list.items.len(), 1);
    assert_eq!(value(&list.items[0])["data"]["a"], "1");
    assert_eq!(list.resource_version, first.resource_version());
}

/// OC11
#[tokio::test]
async fn oc11_after_compaction_a_page_is_expired_and_has_a_token_to_continue() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        cluster.create(&config_map(name)).await.unwrap();
    }
    let mut options = ListOptions {
        limit: Some(1),
        ..ListOptions::default()
    };
    let page = cluster.list("configmaps", options.clone()).await.unwrap();
    cluster.create(&config_map("bb")).await.unwrap();
    let store = cluster.registry.store();
    store.compact(store.revision()).await.unwrap();
    options.continue_token = page.continue_token;
    let status = cluster.list("configmaps", options.clone()).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    options.limit = None;
    options.continue_token = Some(status.metadata.continue_token);
    let rest = cluster.list("configmaps", options).await.unwrap();
    let names: Vec<&str> = rest.items.iter().map(|item| item.key().name()).collect();
    assert_eq!(names, ["b", "bb", "c"]);
}

/// TR8
#[tokio::test]
async fn tr8_an_update_that_changes_nothing_commits_nothing_and_sends_no_event() {
    let cluster = Cluster::start().await;
    let created = cluster.create(&config_map("a")).await.unwrap();
    let mut watch = cluster
        .watch("configmaps", after(created.resource_version()))
        .await
        .unwrap();
    let before = cluster.registry.store().revision();
    let same = cluster.update(&value(&created), "").await.unwrap();
    assert_eq!(same.resource_version(), created.resource_version());
    assert_eq!(cluster.registry.store().revision(), before);
    assert_eq!(cluster.registry.metrics().unchanged_writes, 1);
    cluster.update(&changed(&value(&created), "2"), "").await.unwrap();
    assert_eq!(next(&mut watch).await, "MODIFIED default/a");
}

/// TR8
#[tokio::test]
async fn tr8_each_write_gives_one_event_to_each_watcher_in_order() {
    let cluster = Cluster::start().await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        watches.push(
            cluster
                .watch("configmaps", WatchOptions::default())
                .await
                .unwrap(),
        );
    }
    let created = cluster.create(&config_map("a")).await.unwrap();
    cluster.update(&changed(&value(&created), "2"), "").await.unwrap();
    cluster
        .delete("configmaps", "default/a", Default::default())
        .await
        .unwrap();
    for watch in &mut watches {
        assert_eq!(next(watch).await, "ADDED default/a");
        assert_eq!(next(watch).await, "MODIFIED default/a");
        assert_eq!(next(watch).await, "DELETED default/a");
    }
}

#[tokio::test]
async fn an_update_without_a_version_wins_over_whatever_is_there() {
    let cluster = Arc::new(Cluster::start().await);
    let mut read = value(&cluster.create(&config_map("a")).await.unwrap());
    read["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    let mut writers = JoinSet::new();
    for n in 0..20 {
        let (cluster, mut mine) = (cluster.clone(), read.clone());
        mine["data"]["a"] = format!("writer {n}").into();
        writers.spawn(async move { cluster.update(&mine, "").await });
    }
    assert!(writers.join_all().await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let cluster = Cluster::start().await;
    let dry = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let before = cluster.registry.store().revision();
    let object = cluster.create_with(&config_map("a"), dry.clone()).await.unwrap();
    assert_eq!(value(&object)["metadata"].get("resourceVersion"), None);
    assert!(!object.uid().is_empty());
    assert_eq!(cluster.registry.store().revision(), before);
    let created = cluster.create(&config_map("a")).await.unwrap();
    let tried = cluster
        .update_with(&changed(&value(&created), "2"), "", dry.clone())
        .await
        .unwrap();
    assert_eq!(value(&tried)["data"]["a"], "2");
    let got = cluster.get("configmaps", "default/a").await.unwrap();
    assert_eq!(value(&got)["data"]["a"], "1");
    let taken = cluster.create_with(&config_map("a"), dry).await.unwrap_err();
    assert!(taken.is_already_exists());
}

fn changed(read: &serde_json::Value, text: &str) -> serde_json::Value {
    let mut changed = read.clone();
    changed["data"]["a"] = text.into();
    changed
}

fn after(version: ResourceVersion) -> WatchOptions {
    WatchOptions {
        resource_version: Some(version),
        ..WatchOptions::default()
    }
}
