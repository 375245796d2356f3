//! `Cluster::wait_until_quiet`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use setpoint_api::Key;
use setpoint_runtime::{Client, Error, Next, Reconcile, for_};
use setpoint_testkit::{Cluster, Component, config_map, replica_set};

/// Returns the same result for each reconcile, and counts them.
struct Always(Arc<AtomicUsize>, fn() -> Next);

impl Reconcile for Always {
    async fn reconcile(&self, _: &Key, _: &Client) -> Result<Next, Error> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok((self.1)())
    }
}

/// Never finishes a reconcile.
struct Stuck;

impl Reconcile for Stuck {
    async fn reconcile(&self, _: &Key, _: &Client) -> Result<Next, Error> {
        std::future::pending().await
    }
}

async fn create(cluster: &Cluster, name: &str) {
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    maps.create(&config_map(name, "v", "1")).await.unwrap();
}

#[tokio::test]
async fn a_quiet_cluster_has_done_all_there_was_to_do() {
    let (cluster, _components) = Cluster::with([Component::Controller("replicaset")]).await;
    let sets = cluster.client("test").namespaced("default");
    for replicas in [3, 1] {
        let web = replica_set("web").replicas(replicas).build();
        let written = match replicas {
            3 => sets.create(&web).await.unwrap(),
            _ => sets.update(&web).await.unwrap(),
        };
        let reached = cluster.wait_until_quiet().await.unwrap();
        let pods = cluster.list::<Pod>();
        let staying = pods
            .iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        assert_eq!(staying.count(), usize::try_from(replicas).unwrap());
        assert!(reached > written.resource_version());
        assert_eq!(reached, cluster.revision());
    }
    assert_eq!(cluster.wait_until_quiet().await.unwrap(), cluster.revision());
}

#[tokio::test]
async fn what_waits_for_its_time_is_not_waited_for() {
    let (cluster, runs) = (Cluster::start().await, Arc::new(AtomicUsize::new(0)));
    let count = runs.clone();
    let hourly = || Next::After(Duration::from_secs(3600));
    let _loop = cluster
        .run_controller("hourly", |_| {
            Ok(for_::<ConfigMap>()
                .named("hourly")
                .reconciles_with(Always(count, hourly)))
        })
        .unwrap();
    create(&cluster, "x").await;
    cluster.wait_until_quiet().await.unwrap();
    let before = runs.load(Ordering::SeqCst);
    assert!(before > 0);
    cluster.advance(Duration::from_secs(3600)).await;
    cluster.wait_until_quiet().await.unwrap();
    assert!(runs.load(Ordering::SeqCst) > before);
}

#[tokio::test(start_paused = true)]
async fn one_that_never_ends_is_named() {
    let cluster = Cluster::start().await;
    let _loop = cluster
        .run_controller("stuck", |_| {
            Ok(for_::<ConfigMap>().named("stuck").reconciles_with(Stuck))
        })
        .unwrap();
    create(&cluster, "x").await;
    let still = cluster.wait_until_quiet().await.unwrap_err();
    assert_eq!(still.revision, cluster.revision());
    let shown = still.to_string();
    assert!(
        shown.starts_with(&format!("still busy at revision {}: stuck: ", still.revision)),
        "{shown}"
    );
    assert!(
        shown.contains("keys in process") && shown.contains("default/x"),
        "{shown}"
    );
}
