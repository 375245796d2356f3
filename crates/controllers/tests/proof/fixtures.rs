//! The objects of these tests, with helpers to create and inspect them.

use std::fmt::Debug;

use k8s_openapi::Metadata;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use setpoint_runtime::{Client, Object, Patch};
use setpoint_testkit::{Cluster, persistent_volume};

pub(crate) const DEPLOYMENTS: &str = "deployment-controller";
pub(crate) const REPLICA_SETS: &str = "replicaset-controller";
pub(crate) const STATEFUL_SETS: &str = "statefulset-controller";
pub(crate) const VOLUMES: &str = "persistentvolume-binder-controller";
pub(crate) const JOBS: &str = "job-controller";

pub(crate) fn user(cluster: &Cluster) -> Client {
    cluster.client("test")
}

pub(crate) async fn create<T: Object + Debug>(cluster: &Cluster, object: &T) {
    let handle = user(cluster).namespaced("default");
    Box::pin(handle.create(object)).await.unwrap();
}

/// Changes an object in the default namespace by a merge patch.
pub(crate) async fn patch<T: Object>(cluster: &Cluster, name: &str, patch: &Value) {
    let handle = user(cluster).namespaced::<T>("default");
    let patch = Patch::merge(patch).unwrap();
    Box::pin(handle.patch(name, &patch)).await.unwrap();
}

/// A change without meaning that enqueues the object in its controllers.
pub(crate) async fn touch<T: Object>(cluster: &Cluster, name: &str, n: usize) {
    patch::<T>(
        cluster,
        name,
        &json!({"metadata": {"annotations": {"touched": n.to_string()}}}),
    )
    .await;
}

pub(crate) async fn scale<T: Object>(cluster: &Cluster, name: &str, replicas: i32) {
    patch::<T>(cluster, name, &json!({"spec": {"replicas": replicas}})).await;
}

pub(crate) async fn set_image<T: Object>(cluster: &Cluster, name: &str, image: &str) {
    let containers = json!([{"name": "main", "image": image}]);
    patch::<T>(
        cluster,
        name,
        &json!({"spec": {"template": {"spec": {"containers": containers}}}}),
    )
    .await;
}

pub(crate) fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
    })
}

/// Creates the StatefulSet [`stateful_set`], and volumes for the claims of its pods, which wait for a node until the
/// claims are bound.
pub(crate) async fn create_stateful_set(cluster: &Cluster, replicas: i32, policy: &str) {
    let volumes = user(cluster).all();
    for number in 0..replicas {
        let volume = persistent_volume(&format!("volume-{number}"));
        Box::pin(volumes.create(&volume)).await.unwrap();
    }
    create(cluster, &stateful_set(replicas, policy)).await;
}

/// A StatefulSet called `db`, each of whose pods has a claim of its own.
pub(crate) fn stateful_set(replicas: i32, policy: &str) -> StatefulSet {
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "podManagementPolicy": policy,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template("db"),
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    serde_json::from_value(set).unwrap()
}

/// A Job called `sum`.
pub(crate) fn job(parallelism: i32, completions: i32) -> Job {
    let mut template = template("sum");
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({
        "metadata": {"name": "sum"},
        "spec": {"parallelism": parallelism, "completions": completions, "template": template},
    });
    serde_json::from_value(job).unwrap()
}

pub(crate) fn pods(cluster: &Cluster) -> Vec<Pod> {
    cluster.list()
}

pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// The pods that are neither finished nor terminating.
pub(crate) fn active(cluster: &Cluster) -> Vec<Pod> {
    let is_active = |pod: &Pod| {
        pod.metadata.deletion_timestamp.is_none() && !matches!(phase(pod), "Succeeded" | "Failed")
    };
    pods(cluster).into_iter().filter(is_active).collect()
}

pub(crate) fn name<T: Metadata<Ty = ObjectMeta>>(object: &T) -> String {
    object.metadata().name.clone().unwrap_or_default()
}

pub(crate) fn names<T: Object + Metadata<Ty = ObjectMeta>>(cluster: &Cluster) -> Vec<String> {
    cluster.list::<T>().iter().map(name).collect()
}

/// Finishes active pods, one after the other with these phases.
pub(crate) async fn end(cluster: &Cluster, phases: &[&str]) {
    let handle = user(cluster).namespaced::<Pod>("default");
    for (pod, phase) in active(cluster).iter().zip(phases) {
        let patch = Patch::merge(&json!({"status": {"phase": phase}})).unwrap();
        handle.patch_status(&name(pod), &patch).await.unwrap();
    }
}

pub(crate) fn set_status(cluster: &Cluster, name: &str) -> (i32, i32) {
    let set: Option<ReplicaSet> = cluster.find(name);
    let status = set.and_then(|set| set.status).unwrap_or_default();
    (status.replicas, status.available_replicas.unwrap_or(0))
}

pub(crate) fn deployment_status(cluster: &Cluster, name: &str) -> DeploymentStatus {
    let deployment: Option<Deployment> = cluster.find(name);
    deployment.and_then(|own| own.status).unwrap_or_default()
}

/// Whether all pods of the Deployment are of its newest template and available, and its status reports it.
pub(crate) fn is_rolled_out(cluster: &Cluster, name: &str) -> bool {
    let Some(deployment) = cluster.find::<Deployment>(name) else {
        return false;
    };
    let status = deployment.status.unwrap_or_default();
    let desired = deployment.spec.replicas;
    let conditions = status.conditions.iter().flatten();
    let is_reported = conditions
        .into_iter()
        .any(|one| one.reason.as_deref() == Some("NewReplicaSetAvailable"));
    let counts = [
        status.replicas,
        status.updated_replicas,
        status.available_replicas,
    ];
    status.observed_generation == deployment.metadata.generation
        && counts.iter().all(|count| *count == desired)
        && is_reported
}

pub(crate) fn stateful_status(cluster: &Cluster) -> StatefulSetStatus {
    let set: Option<StatefulSet> = cluster.find("db");
    set.and_then(|set| set.status).unwrap_or_default()
}

/// Whether so many pods of the StatefulSet are available, all of the newest template, and its status reports it.
pub(crate) fn is_stateful(cluster: &Cluster, replicas: i32) -> bool {
    let Some(set) = cluster.find::<StatefulSet>("db") else {
        return false;
    };
    let status = set.status.unwrap_or_default();
    status.observed_generation == set.metadata.generation
        && status.replicas == replicas
        && status.available_replicas == Some(replicas)
        && status.updated_replicas == Some(replicas)
        && status.current_revision == status.update_revision
}

pub(crate) fn job_status(cluster: &Cluster) -> JobStatus {
    let job: Option<Job> = cluster.find("sum");
    job.and_then(|job| job.status).unwrap_or_default()
}

/// The types of the Job's conditions.
pub(crate) fn job_conditions(cluster: &Cluster) -> Vec<String> {
    let conditions = job_status(cluster).conditions.unwrap_or_default();
    conditions.into_iter().map(|one| one.type_).collect()
}
