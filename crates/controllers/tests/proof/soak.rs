//! Soak (FL10): pods are killed at random for an hour, and the cluster recovers each time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_runtime::Patch;
use setpoint_testkit::canonical_dump::diff;
use setpoint_testkit::{Cluster, deployment};

use crate::fixtures::*;
use crate::workload;

const KILLS: usize = 60;
/// One hour in total.
const BETWEEN: Duration = Duration::from_secs(60);
/// Six of a Deployment, three of a StatefulSet, one on each of two nodes.
const PODS: usize = 11;

/// Ends a pod in one of several ways.
async fn kill(cluster: &Cluster, pod: &Pod, way: usize) {
    let pods = user(cluster).namespaced::<Pod>("default");
    let at_once = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    match way % 3 {
        0 => drop(pods.delete(&name(pod), DeleteOptions::default()).await.unwrap()),
        1 => drop(pods.delete(&name(pod), at_once).await.unwrap()),
        _ => {
            let patch = Patch::merge(&json!({"status": {"phase": "Failed"}})).unwrap();
            drop(pods.patch_status(&name(pod), &patch).await.unwrap());
        }
    }
}

/// Deletes failed pods, which are only kept for inspection.
async fn clear_away(cluster: &Cluster) {
    let handle = user(cluster).namespaced::<Pod>("default");
    for pod in pods(cluster).iter().filter(|pod| phase(pod) == "Failed") {
        handle.delete(&name(pod), DeleteOptions::default()).await.unwrap();
    }
    cluster.advance(BETWEEN).await;
}

/// FL10
#[tokio::test(start_paused = true)]
async fn fl10_pods_that_are_killed_for_an_hour_are_replaced_and_nothing_is_left_behind() {
    let cluster = Cluster::start().await;
    let _parts: Vec<_> = workload::components()
        .into_iter()
        .map(|component| cluster.run(component))
        .collect();
    create(&cluster, &deployment("web").replicas(6).build()).await;
    create_stateful_set(&cluster, 3, "OrderedReady").await;
    workload::create_object(&cluster, "default", workload::daemon_set()).await;
    cluster.advance(Duration::from_secs(180)).await;
    let before = cluster.canonical_dump();
    assert_eq!(active(&cluster).len(), PODS);
    let mut dice: usize = 12_345;
    for n in 0..KILLS {
        dice = dice.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
        let victims = active(&cluster);
        kill(&cluster, &victims[(dice >> 8) % victims.len()], n).await;
        cluster.advance(BETWEEN).await;
        let running = active(&cluster)
            .iter()
            .filter(|pod| phase(pod) == "Running")
            .count();
        assert_eq!(running, PODS, "after kill {n}");
    }
    clear_away(&cluster).await;
    let after = cluster.canonical_dump();
    assert!(after == before, "{}", diff(&before, &after));
}
