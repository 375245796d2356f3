//! The components of a cluster as processes of their own, each with nothing but a kubeconfig: API server, controller
//! manager, scheduler and nodes (CL7, CL9, CL10).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::Cluster;
use cluster::component::Component;
use futures_util::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use setpoint_api::options::{DeleteOptions, WatchOptions};
use setpoint_api::{Event, Stored};
use setpoint_client::{Client, Object};
use setpoint_testkit::deployment;
use tokio::task::JoinSet;

/// The lease of a leader that is gone expires after ten seconds. Shorter times let a busy machine lose it.
const ELECTION: &[&str] = &[
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=500ms",
];

/// An API server of its own process, with the objects in memory.
fn start_apiserver() -> Cluster {
    Cluster::start_apiserver(&Arc::new(tempfile::tempdir().unwrap()), &["--memory"])
}

/// Waits for an object of a type that is as expected.
async fn until<T: Object>(client: &Client, namespace: &str, is_expected: impl Fn(&T) -> bool) {
    let objects = client.namespaced::<T>(namespace);
    let mut events = objects.watch(&WatchOptions::default()).await.unwrap();
    loop {
        match events.next().await.unwrap() {
            Event::Added(object) | Event::Modified(object) if is_expected(&decode(&object)) => return,
            Event::Error(status) => panic!("{status:?}"),
            _ => {}
        }
    }
}

fn decode<T: Object>(object: &Arc<Stored>) -> T {
    setpoint_client::TypedObject::new(object.clone())
        .to_owned()
        .unwrap()
}

/// Whether all replicas of a Deployment run its current template, and no others.
fn is_complete(deployment: &Deployment, replicas: i32) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    status.observed_generation == deployment.metadata.generation
        && [
            status.replicas,
            status.updated_replicas,
            status.available_replicas,
        ] == [Some(replicas); 3]
}

/// CL7 CL9 CL10: the API server alone has the store; with the other components as processes a Deployment gets its pods, and
/// without it they are collected.
#[tokio::test(flavor = "multi_thread")]
async fn cl10_four_processes_are_a_cluster() {
    let server = start_apiserver();
    let _components = [
        Component::start(&server, "controller-manager", &[]),
        Component::start(&server, "scheduler", &[]),
        Component::start(&server, "node", &["--runtime=simulated", "--nodes=2"]),
    ];
    let client = server.client();
    let deployments = client.namespaced::<Deployment>("default");
    deployments
        .create(&deployment("web").replicas(3).build())
        .await
        .unwrap();
    until::<Deployment>(&client, "default", |one| is_complete(one, 3)).await;
    let pods = client.namespaced::<Pod>("default");
    let listed = pods.list(&Default::default()).await.unwrap();
    let phases: Vec<_> = listed
        .items
        .iter()
        .map(|pod| pod.to_owned().unwrap().status.unwrap().phase.unwrap())
        .collect();
    assert_eq!(phases, ["Running"; 3]);
    let options = WatchOptions {
        resource_version: Some(listed.resource_version),
        ..WatchOptions::default()
    };
    let mut events = pods.watch(&options).await.unwrap();
    deployments.delete("web", DeleteOptions::default()).await.unwrap();
    let mut deleted = 0;
    while deleted < 3 {
        deleted += usize::from(matches!(events.next().await.unwrap(), Event::Deleted(_)));
    }
}

/// The pods that live: those that exist and are not being deleted, after every event.
#[derive(Debug, Default)]
struct LivePods {
    names: BTreeSet<String>,
    most: usize,
}

impl LivePods {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Added(pod) | Event::Modified(pod) if !pod.header().deleting => {
                self.names.insert(pod.key().name().to_owned());
            }
            Event::Added(pod) | Event::Modified(pod) | Event::Deleted(pod) => {
                self.names.remove(pod.key().name());
            }
            Event::Error(status) => panic!("{status:?}"),
            Event::Bookmark(_) => {}
        }
        self.most = self.most.max(self.names.len());
    }
}

/// CL7 RS7: the leading controller manager is killed in the middle of a rollout. The other one takes over when its lease has
/// expired and completes the rollout, and at no time there is a pod more than the strategy allows.
#[tokio::test(flavor = "multi_thread")]
async fn cl7_a_rollout_survives_the_kill_of_the_leading_controller_manager() {
    const REPLICAS: i32 = 20;
    let server = start_apiserver();
    let mut managers = vec![
        Component::start(&server, "controller-manager", ELECTION),
        Component::start(&server, "controller-manager", ELECTION),
    ];
    let others = [
        Component::start(&server, "scheduler", &[]),
        Component::start(&server, "node", &["--runtime=simulated", "--nodes=2"]),
    ];
    let client = server.client();
    let deployments = client.namespaced::<Deployment>("default");
    let desired = deployment("web").replicas(REPLICAS).build();
    let pods = client.namespaced::<Pod>("default");
    let mut events = pods.watch(&WatchOptions::default()).await.unwrap();
    let mut counting = JoinSet::new();
    counting.spawn(async move {
        let mut live = LivePods::default();
        // The stream ends with the server.
        while let Some(event) = events.next().await {
            live.apply(&event);
        }
        live
    });
    deployments.create(&desired).await.unwrap();
    until::<Deployment>(&client, "default", |one| is_complete(one, REPLICAS)).await;
    let mut changed = deployments.get("web").await.unwrap().to_owned().unwrap();
    let template = changed.spec.template.spec.get_or_insert_default();
    template.containers[0].image = Some("example.com/web:2".to_owned());
    deployments.update(&changed).await.unwrap();
    until::<Deployment>(&client, "default", |one| {
        let updated = one.status.as_ref().and_then(|status| status.updated_replicas);
        (3..REPLICAS).contains(&updated.unwrap_or_default())
    })
    .await;
    let leases = client.namespaced::<Lease>("kube-system");
    let lease = leases.get("kube-controller-manager").await.unwrap();
    let lease = lease.to_owned().unwrap();
    let leader = managers.iter().position(|one| one.holds(&lease)).unwrap();
    drop(managers.remove(leader));
    until::<Deployment>(&client, "default", |one| is_complete(one, REPLICAS)).await;
    until::<Lease>(&client, "kube-system", |lease| managers[0].holds(lease)).await;
    drop((managers, others));
    assert!(server.terminate());
    let live = counting.join_next().await.unwrap().unwrap();
    // A quarter of the replicas may be added during a rollout.
    assert!(
        live.most <= 25 && live.most > 20,
        "{} pods lived at once",
        live.most
    );
    assert_eq!(live.names.len(), 20);
}
