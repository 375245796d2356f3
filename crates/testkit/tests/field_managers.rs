//! Field managers: what a component writes is owned by the manager that Kubernetes has for it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use setpoint_client::{Client, Object, Patch};
use setpoint_testkit::{Cluster, Component, pod, replica_set};

/// The managers of an object, each with its subresource: `kubelet`, `kubelet/status`.
fn managers(metadata: &ObjectMeta) -> BTreeSet<String> {
    let entries = metadata.managed_fields.iter().flatten();
    let name = |manager: Option<&str>, subresource: Option<&str>| match subresource {
        Some(subresource) => format!("{}/{subresource}", manager.unwrap_or_default()),
        None => manager.unwrap_or_default().to_owned(),
    };
    entries
        .map(|entry| name(entry.manager.as_deref(), entry.subresource.as_deref()))
        .collect()
}

#[track_caller]
fn check(metadata: &ObjectMeta, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(managers(metadata), expected, "{:?}", metadata.name);
}

async fn create<T: Object>(cluster: &Cluster, object: &T) {
    let client: Client = cluster.client("test").with_field_manager("test");
    client.namespaced("default").create(object).await.unwrap();
}

fn is_running(cluster: &Cluster) -> bool {
    let pods: Vec<Pod> = cluster.list();
    pods.iter()
        .any(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"))
}

#[tokio::test]
async fn controllers_scheduler_and_nodes_write_as_the_managers_of_kubernetes() {
    let components = [
        Component::Controller("replicaset"),
        Component::Scheduler,
        Component::nodes(1),
    ];
    let (cluster, _components) = Cluster::with(components).await;
    create::<ReplicaSet>(&cluster, &replica_set("web").build()).await;
    cluster.until("a running pod", is_running).await;
    cluster.settle().await;

    let set: ReplicaSet = cluster.find("web").unwrap();
    check(&set.metadata, &["test", "kube-controller-manager/status"]);
    let pod = &cluster.list::<Pod>()[0];
    check(&pod.metadata, &["kube-controller-manager", "kubelet/status"]);
    check(&cluster.list::<Node>()[0].metadata, &["kubelet"]);
    check(&cluster.list::<Lease>()[0].metadata, &["kubelet"]);
    for event in cluster.list::<Event>() {
        let expected = match event.reason.as_deref() {
            Some("Scheduled") => "kube-scheduler",
            _ => "kube-controller-manager",
        };
        check(&event.metadata, &[expected]);
    }
}

#[tokio::test]
async fn the_scheduler_owns_the_condition_of_a_pod_that_fits_nowhere() {
    let (cluster, _components) = Cluster::with([Component::Scheduler]).await;
    create::<Pod>(&cluster, &pod("web").build()).await;
    let has_condition = |cluster: &Cluster| {
        let pod: Option<Pod> = cluster.find("web");
        pod.and_then(|pod| pod.status?.conditions).is_some()
    };
    cluster.until("a condition", has_condition).await;
    let pod: Pod = cluster.find("web").unwrap();
    check(&pod.metadata, &["test", "kube-scheduler/status"]);
}

#[tokio::test]
async fn bootstrap_objects_are_managed_by_the_server() {
    let (cluster, _components) = Cluster::with([]).await;
    check(
        &cluster.find::<Namespace>("default").unwrap().metadata,
        &["kube-apiserver"],
    );
    check(
        &cluster.find::<ClusterRole>("view").unwrap().metadata,
        &["kube-apiserver"],
    );
    let producer = "api-priority-and-fairness-config-producer-v1";
    check(
        &cluster.find::<FlowSchema>("exempt").unwrap().metadata,
        &[producer],
    );
}

#[tokio::test]
async fn the_first_apply_to_a_bootstrap_object_adds_only_its_own_manager() {
    let (cluster, _components) = Cluster::with([]).await;
    let applied = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "view", "labels": {"team": "a"}},
    });
    let patch = Patch::apply(&applied, "me").unwrap();
    let roles = cluster.client("test").all::<ClusterRole>();
    let role = roles.patch("view", &patch).await.unwrap().to_owned().unwrap();
    check(&role.metadata, &["kube-apiserver", "me"]);
}
