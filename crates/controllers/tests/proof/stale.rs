//! Caches that lag behind (RS7): whatever a controller is woken for, it never does twice what it has done.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use setpoint_testkit::{Cluster, Part, deployment, set};

use crate::world::*;

const SYNCS: usize = 100;

/// RS7, RS11: pods that are deleted unseen are not made up for by deleting others.
#[tokio::test(start_paused = true)]
async fn rs7_a_cache_that_lags_behind_never_makes_a_pod_too_few() {
    let cluster = Cluster::start().await;
    let mirror = cluster.mirror();
    let _part = cluster.run_on(mirror.clone(), Part::Controller(REPLICA_SETS));
    create(&cluster, &set("web").replicas(10).build()).await;
    cluster
        .until("ten pods", |cluster| set_status(cluster, "web").0 == 10)
        .await;
    cluster.settle().await;
    mirror.hold::<Pod>();
    scale::<ReplicaSet>(&cluster, "web", 4).await;
    cluster
        .until("four pods", |cluster| pods(cluster).len() == 4)
        .await;
    for n in 0..SYNCS {
        touch::<ReplicaSet>(&cluster, "web", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(pods(&cluster).len(), 4);
    }
    mirror.release::<Pod>();
    cluster
        .until("a status of four", |cluster| set_status(cluster, "web").0 == 4)
        .await;
    cluster.settle().await;
    assert_eq!(cluster.link.count("replicaset-controller create pods"), 10);
    assert_eq!(cluster.link.count("replicaset-controller delete pods"), 6);
}

/// RS7: a Deployment and its sets, none of which see a pod or a set.
#[tokio::test(start_paused = true)]
async fn rs7_a_rollout_on_caches_that_lag_behind_never_makes_a_pod_too_many() {
    let cluster = Cluster::start().await;
    let mirror = cluster.mirror();
    let parts = [DEPLOYMENTS, REPLICA_SETS].map(Part::Controller);
    let _parts = parts.map(|part| cluster.run_on(mirror.clone(), part));
    let _beside = [Part::Scheduler, Part::nodes(1)].map(|part| cluster.run(part));
    create(&cluster, &deployment("web").replicas(8).build()).await;
    cluster
        .until("a rollout", |cluster| is_rolled_out(cluster, "web"))
        .await;
    set_image::<Deployment>(&cluster, "web", "example.com/app:2").await;
    cluster.settle().await;
    for n in 0..SYNCS {
        // Now the one, now the other, now both are out of sight, and sometimes neither.
        match n % 4 {
            0 => mirror.hold::<Pod>(),
            1 => mirror.hold::<ReplicaSet>(),
            2 => mirror.release::<Pod>(),
            _ => mirror.release::<ReplicaSet>(),
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
    mirror.release::<Pod>();
    mirror.release::<ReplicaSet>();
    cluster
        .until("a rollout", |cluster| is_rolled_out(cluster, "web"))
        .await;
    assert_eq!(pods(&cluster).len(), 8);
    assert_eq!(cluster.link.count("replicaset-controller create pods"), 16);
    assert_eq!(cluster.link.count("deployment-controller create replicasets"), 2);
}

/// RS7, for numbered pods, their claims and the history.
#[tokio::test(start_paused = true)]
async fn rs7_a_stateful_set_on_caches_that_lag_behind_does_nothing_twice() {
    let cluster = Cluster::start().await;
    let mirror = cluster.mirror();
    let _part = cluster.run_on(mirror.clone(), Part::Controller(STATEFUL_SETS));
    let _beside = [Part::Scheduler, Part::nodes(1)].map(|part| cluster.run(part));
    mirror.hold::<Pod>();
    mirror.hold::<PersistentVolumeClaim>();
    mirror.hold::<ControllerRevision>();
    create(&cluster, &stateful_set(3, "Parallel")).await;
    cluster
        .until("three pods", |cluster| pods(cluster).len() == 3)
        .await;
    for n in 0..SYNCS {
        touch::<StatefulSet>(&cluster, "db", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(pods(&cluster).len(), 3);
    }
    mirror.release::<Pod>();
    mirror.release::<PersistentVolumeClaim>();
    mirror.release::<ControllerRevision>();
    cluster
        .until("three available", |cluster| is_stateful(cluster, 3))
        .await;
    mirror.hold::<Pod>();
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
    mirror.release::<Pod>();
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
        assert_eq!(cluster.link.count(&line), expected, "{line}");
    }
}

/// RS7, for pods whose ends are counted.
#[tokio::test(start_paused = true)]
async fn rs7_a_job_on_caches_that_lag_behind_makes_no_pod_too_many_and_counts_once() {
    let cluster = Cluster::start().await;
    let mirror = cluster.mirror();
    let _part = cluster.run_on(mirror.clone(), Part::Controller(JOBS));
    mirror.hold::<Pod>();
    create(&cluster, &job(5, 8)).await;
    cluster
        .until("five pods", |cluster| pods(cluster).len() == 5)
        .await;
    for n in 0..SYNCS {
        touch::<Job>(&cluster, "sum", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert_eq!(pods(&cluster).len(), 5);
    }
    mirror.release::<Pod>();
    cluster.settle().await;
    // Three ends are written down and let go while the counts are out of sight.
    mirror.hold::<Job>();
    end(&cluster, &["Succeeded", "Succeeded", "Failed"]).await;
    for n in 0..SYNCS {
        touch::<Job>(&cluster, "sum", n).await;
        cluster.advance(Duration::from_secs(2)).await;
        assert!(active(&cluster).len() <= 5);
    }
    mirror.release::<Job>();
    for _ in 0..4 {
        cluster.advance(Duration::from_secs(60)).await;
        end(&cluster, &["Succeeded"; 5]).await;
    }
    cluster.settle().await;
    assert_eq!(job_conditions(&cluster), ["SuccessCriteriaMet", "Complete"]);
    let status = job_status(&cluster);
    assert_eq!((status.succeeded, status.failed), (Some(8), Some(1)));
    assert_eq!(pods(&cluster).len(), 9);
    assert_eq!(cluster.link.count("job-controller create pods"), 9);
}
