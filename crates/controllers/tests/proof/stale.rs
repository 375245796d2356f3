//! Stale caches (RS7): whatever events enqueue, a controller never repeats what it has already done.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use setpoint_testkit::{Cluster, Component, deployment, replica_set};

use crate::fixtures::*;

const SYNCS: usize = 100;

/// RS7, RS11: unobserved deletions are not made up for by deleting other pods.
#[tokio::test(start_paused = true)]
async fn rs7_a_stale_cache_never_deletes_a_pod_too_many() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let _part = cluster.run_with_caches(lagging_caches.clone(), Component::Controller(REPLICA_SETS));
    create(&cluster, &replica_set("web").replicas(10).build()).await;
    cluster
        .until("ten pods", |cluster| set_status(cluster, "web").0 == 10)
        .await;
    cluster.settle().await;
    lagging_caches.pause::<Pod>();
    scale::<ReplicaSet>(&cluster, "web", 4).await;
    cluster
        .until("four pods", |cluster| pods(cluster).len() == 4)
        .await;
    for n in 0..SYNCS {
        touch::<ReplicaSet>(&cluster, "web", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(pods(&cluster).len(), 4);
    }
    lagging_caches.resume::<Pod>();
    cluster
        .until("a status of four", |cluster| set_status(cluster, "web").0 == 4)
        .await;
    cluster.settle().await;
    assert_eq!(cluster.interceptor.count("replicaset-controller create pods"), 10);
    assert_eq!(cluster.interceptor.count("replicaset-controller delete pods"), 6);
}

/// RS7: a Deployment and its sets, whose caches show no new pod or set.
#[tokio::test(start_paused = true)]
async fn rs7_a_rollout_on_stale_caches_never_creates_a_pod_too_many() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let components = [DEPLOYMENTS, REPLICA_SETS].map(Component::Controller);
    let _parts = components.map(|part| cluster.run_with_caches(lagging_caches.clone(), part));
    let _beside = [Component::Scheduler, Component::nodes(1)].map(|part| cluster.run(part));
    create(&cluster, &deployment("web").replicas(8).build()).await;
    cluster
        .until("a rollout", |cluster| is_rolled_out(cluster, "web"))
        .await;
    set_image::<Deployment>(&cluster, "web", "example.com/app:2").await;
    cluster.settle().await;
    for n in 0..SYNCS {
        // One cache, the other, both or neither is paused.
        match n % 4 {
            0 => lagging_caches.pause::<Pod>(),
            1 => lagging_caches.pause::<ReplicaSet>(),
            2 => lagging_caches.resume::<Pod>(),
            _ => lagging_caches.resume::<ReplicaSet>(),
        }
        touch::<Deployment>(&cluster, "web", n).await;
        for set in names::<ReplicaSet>(&cluster) {
            touch::<ReplicaSet>(&cluster, &set, n).await;
        }
        cluster.settle().await;
        let count = active(&cluster).len();
        assert!((6..=10).contains(&count), "{count} pods in round {n}");
        assert!(cluster.list::<ReplicaSet>().len() <= 2);
    }
    lagging_caches.resume::<Pod>();
    lagging_caches.resume::<ReplicaSet>();
    cluster
        .until("a rollout", |cluster| is_rolled_out(cluster, "web"))
        .await;
    assert_eq!(pods(&cluster).len(), 8);
    assert_eq!(cluster.interceptor.count("replicaset-controller create pods"), 16);
    assert_eq!(
        cluster
            .interceptor
            .count("deployment-controller create replicasets"),
        2
    );
}

/// RS7, for a StatefulSet's pods, claims and revisions.
#[tokio::test(start_paused = true)]
async fn rs7_a_stateful_set_on_stale_caches_does_nothing_twice() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let _part = cluster.run_with_caches(lagging_caches.clone(), Component::Controller(STATEFUL_SETS));
    let beside = [
        Component::Controller(VOLUMES),
        Component::Scheduler,
        Component::nodes(1),
    ];
    let _beside = beside.map(|part| cluster.run(part));
    lagging_caches.pause::<Pod>();
    lagging_caches.pause::<PersistentVolumeClaim>();
    lagging_caches.pause::<ControllerRevision>();
    create_stateful_set(&cluster, 3, "Parallel").await;
    cluster
        .until("three pods", |cluster| pods(cluster).len() == 3)
        .await;
    for n in 0..SYNCS {
        touch::<StatefulSet>(&cluster, "db", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(pods(&cluster).len(), 3);
    }
    lagging_caches.resume::<Pod>();
    lagging_caches.resume::<PersistentVolumeClaim>();
    lagging_caches.resume::<ControllerRevision>();
    cluster
        .until("three available", |cluster| is_stateful(cluster, 3))
        .await;
    lagging_caches.pause::<Pod>();
    set_image::<StatefulSet>(&cluster, "db", "example.com/app:2").await;
    cluster.settle().await;
    for n in 0..SYNCS {
        touch::<StatefulSet>(&cluster, "db", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert!(
            active(&cluster).len() >= 2,
            "more than one is missing in round {n}"
        );
    }
    lagging_caches.resume::<Pod>();
    cluster
        .until("three new pods", |cluster| is_stateful(cluster, 3))
        .await;
    cluster.settle().await;
    for (line, expected) in [
        ("create pods", 6),
        ("delete pods", 3),
        ("create persistentvolumeclaims", 3),
        ("create controllerrevisions", 2),
    ] {
        let line = format!("{STATEFUL_SETS} {line}");
        assert_eq!(cluster.interceptor.count(&line), expected, "{line}");
    }
}

/// RS7, for pods that a Job counts.
#[tokio::test(start_paused = true)]
async fn rs7_a_job_on_stale_caches_creates_no_pod_too_many_and_counts_once() {
    let cluster = Cluster::start().await;
    let lagging_caches = cluster.lagging_caches();
    let _part = cluster.run_with_caches(lagging_caches.clone(), Component::Controller(JOBS));
    lagging_caches.pause::<Pod>();
    create(&cluster, &job(5, 8)).await;
    cluster
        .until("five pods", |cluster| pods(cluster).len() == 5)
        .await;
    for n in 0..SYNCS {
        touch::<Job>(&cluster, "sum", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(pods(&cluster).len(), 5);
    }
    lagging_caches.resume::<Pod>();
    cluster.settle().await;
    // Three finished pods are recorded and released while the cache of Jobs is paused.
    lagging_caches.pause::<Job>();
    end(&cluster, &["Succeeded", "Succeeded", "Failed"]).await;
    for n in 0..SYNCS {
        touch::<Job>(&cluster, "sum", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert!(active(&cluster).len() <= 5);
    }
    lagging_caches.resume::<Job>();
    for _ in 0..4 {
        cluster.advance(Duration::from_secs(60)).await;
        end(&cluster, &["Succeeded"; 5]).await;
    }
    cluster.settle().await;
    assert_eq!(job_conditions(&cluster), ["SuccessCriteriaMet", "Complete"]);
    let status = job_status(&cluster);
    assert_eq!((status.succeeded, status.failed), (Some(8), Some(1)));
    assert_eq!(pods(&cluster).len(), 9);
    assert_eq!(cluster.interceptor.count("job-controller create pods"), 9);
}
