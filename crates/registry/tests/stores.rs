//! Resources on stores of their own: each store has its revisions, and side writes on another store than the object's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use setpoint_api::options::{DeleteOptions, ListOptions, WatchOptions};
use setpoint_api::{GroupResource, Key, ResourceVersion};
use setpoint_registry::{Stores, WatchCaches};
use setpoint_registry_api::{Admit, AdmitAll, AdmitFuture, Operation, Review, SideWrite};
use setpoint_store::{Config, Store};

use cluster::{Cluster, ManualClock, config_map, next, replica_set};

fn config_maps() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn priority_classes() -> GroupResource {
    GroupResource::new("scheduling.k8s.io", "priorityclasses")
}

/// A server with ConfigMaps and PriorityClasses on a store of their own, and that store.
async fn start(admit: Arc<dyn Admit>) -> (Cluster, Store) {
    let clock = Arc::new(ManualClock::default());
    let memory = || {
        let times = clock.clone();
        Store::memory(Config::new(Arc::new(move || {
            setpoint_api::Clock::millis(&*times)
        })))
    };
    let elsewhere = memory();
    let stores = Stores::from(memory()).with_override(elsewhere.clone(), [config_maps(), priority_classes()]);
    let caches = WatchCaches::open(stores, Arc::new(setpoint_kinds::builtin()));
    (Cluster::admitting(caches, admit).await, elsewhere)
}

async fn names(cluster: &Cluster, resource: &str) -> Vec<String> {
    let list = cluster.list(resource, ListOptions::default()).await.unwrap();
    let names = list.items.iter().map(|object| object.key().name().to_owned());
    names.collect()
}

#[tokio::test]
async fn a_resource_on_another_store_has_the_versions_of_that_store() {
    let (cluster, elsewhere) = start(Arc::new(AdmitAll)).await;
    for name in ["a", "b", "c"] {
        cluster.create(&replica_set(name)).await.unwrap();
    }
    let before = elsewhere.revision().get();
    let mut watch = cluster
        .watch("configmaps", WatchOptions::default())
        .await
        .unwrap();
    let created = cluster.create(&config_map("m")).await.unwrap();
    assert_eq!(created.resource_version(), ResourceVersion(before + 1));
    assert_eq!(next(&mut watch).await, "ADDED default/m");
    let list = cluster.list("configmaps", ListOptions::default()).await.unwrap();
    assert_eq!(list.resource_version, ResourceVersion(before + 1));
    let exact = ListOptions {
        resource_version: Some(ResourceVersion(before)),
        resource_version_match: Some(setpoint_api::options::ResourceVersionMatch::Exact),
        ..ListOptions::default()
    };
    assert!(cluster.list("configmaps", exact).await.unwrap().items.is_empty());
    cluster.create(&replica_set("d")).await.unwrap();
    assert_eq!(elsewhere.revision().get(), before + 1);
    assert_eq!(names(&cluster, "replicasets.apps").await, ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn bootstrap_objects_are_on_the_stores_of_their_resources() {
    let (cluster, elsewhere) = start(Arc::new(AdmitAll)).await;
    let default = cluster.registry.store().snapshot();
    assert!(!default.is_empty());
    let classes = b"/registry/priorityclasses.scheduling.k8s.io/";
    assert_eq!(
        (default.count(classes), elsewhere.snapshot().count(classes)),
        (0, 2)
    );
    assert_eq!(
        names(&cluster, "priorityclasses.scheduling.k8s.io").await.len(),
        2
    );
}

/// Writes a ConfigMap with a number as its name beside each ReplicaSet, and deletes the first one with any of them.
#[derive(Debug, Default)]
struct SideWriter {
    written: AtomicUsize,
}

impl Admit for SideWriter {
    fn mutate<'a>(&'a self, _: &'a mut Review<'_>) -> AdmitFuture<'a> {
        Box::pin(ready(Ok(())))
    }

    fn validate<'a>(&'a self, review: &'a mut Review<'_>) -> AdmitFuture<'a> {
        let resource = config_maps();
        if review.kind.gvr.resource != "replicasets" {
            return Box::pin(ready(Ok(())));
        }
        match review.operation {
            Operation::Create => {
                let number = self.written.fetch_add(1, SeqCst);
                let object = setpoint_codec::json::parse(config_map(&number.to_string()).as_bytes());
                let object = object.unwrap();
                review.side_writes.push(SideWrite::Create { resource, object });
            }
            Operation::Delete => {
                let old = review.reader.find_object(&resource, &Key::new("default", "0"));
                let old = old.unwrap();
                review.side_writes.push(SideWrite::Delete { resource, old });
            }
            _ => {}
        }
        Box::pin(ready(Ok(())))
    }
}

#[tokio::test]
async fn a_side_write_on_another_store_is_reverted_if_the_object_is_not_written() {
    let (cluster, _) = start(Arc::new(SideWriter::default())).await;
    cluster.create(&replica_set("a")).await.unwrap();
    assert_eq!(names(&cluster, "configmaps").await, ["0"]);
    let error = cluster.create(&replica_set("a")).await.unwrap_err();
    assert!(error.is_already_exists(), "{error:?}");
    assert_eq!(names(&cluster, "configmaps").await, ["0"]);
    let options = DeleteOptions::default();
    cluster
        .delete("replicasets.apps", "default/a", options)
        .await
        .unwrap();
    assert!(names(&cluster, "configmaps").await.is_empty());
}

#[tokio::test]
async fn a_conflict_of_a_side_write_on_another_store_has_the_request_planned_again() {
    let (cluster, _) = start(Arc::new(SideWriter::default())).await;
    // The number that the first attempt takes.
    cluster.create(&config_map("0")).await.unwrap();
    cluster.create(&replica_set("a")).await.unwrap();
    assert_eq!(names(&cluster, "configmaps").await, ["0", "1"]);
}
