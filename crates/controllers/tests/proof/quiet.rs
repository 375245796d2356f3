//! Quiescence (CL5): when everything is in the desired state no controller writes, however often it reconciles.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use setpoint_testkit::{Cluster, Component, RunningComponent};

use crate::fixtures::names;
use crate::workload;

const ROUNDS: usize = 5;

/// Starts all controllers and the scheduler.
fn run_all(cluster: &Cluster) -> Vec<RunningComponent> {
    let components = workload::components().into_iter();
    let controllers = components.filter(|component| !matches!(component, Component::Nodes(_)));
    controllers.map(|component| cluster.run(component)).collect()
}

/// CL5: a controller that starts reconciles every object, so a start is a sync of everything.
#[tokio::test(start_paused = true)]
async fn cl5_further_syncs_of_every_controller_write_nothing() {
    let cluster = Cluster::start().await;
    let _nodes = cluster.run(Component::nodes(2));
    let mut components = run_all(&cluster);
    for stage in 0..workload::STAGES {
        workload::run_stage(&cluster, stage).await;
        cluster.advance(Duration::from_secs(180)).await;
        let before = cluster.canonical_dump();
        if stage == 0 {
            // Controllers that act on the time of day or for the API server have run, too.
            let of_cron = |name: &String| name.starts_with("tick-");
            assert_eq!(
                names::<Job>(&cluster).iter().filter(|name| of_cron(name)).count(),
                1
            );
            assert_eq!(names::<ClusterTrustBundle>(&cluster).len(), 1);
        }
        cluster.interceptor.clear();
        for _ in 0..ROUNDS {
            for component in components.drain(..) {
                component.kill().await;
            }
            components = run_all(&cluster);
            cluster.advance(Duration::from_secs(30)).await;
        }
        let mut writes = cluster.interceptor.writes();
        // Kubelets report their node status periodically.
        writes.retain(|line| line != "kubelet update nodes/status");
        assert_eq!(writes, Vec::<String>::new(), "in stage {stage}");
        assert_eq!(cluster.canonical_dump(), before);
    }
}
