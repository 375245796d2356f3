//! A mixed workload: objects for most controllers, changed in several stages.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_api::options::{DeleteOptions, DeletionPropagation};
use setpoint_testkit::{Cluster, Component, config_map, deployment, namespace, service};

use crate::fixtures::*;

/// The components that run beside the server.
pub(crate) fn components() -> Vec<Component> {
    let controllers = setpoint_controllers::controller_descriptors()
        .into_iter()
        .map(|one| one.name);
    let controllers = controllers.map(Component::Controller);
    controllers
        .chain([Component::Scheduler, Component::nodes(2)])
        .collect()
}

/// The number of stages.
pub(crate) const STAGES: usize = 4;

/// Applies the changes of one stage. A stage begins once the previous one has converged.
pub(crate) async fn run_stage(cluster: &Cluster, stage: usize) {
    // Boxed, since the future of so many requests is large.
    match stage {
        0 => Box::pin(settle_down(cluster)).await,
        1 => Box::pin(change_templates(cluster)).await,
        2 => Box::pin(grow_and_shrink(cluster)).await,
        _ => Box::pin(leave(cluster)).await,
    }
}

async fn settle_down(cluster: &Cluster) {
    create(cluster, &deployment("web").replicas(4).build()).await;
    create(cluster, &deployment("once").replicas(2).recreate().build()).await;
    create(cluster, &service("web", 80).build()).await;
    create_stateful_set(cluster, 2, "OrderedReady").await;
    create(cluster, &job(2, 3)).await;
    for object in [daemon_set(), budget(), quota(), cron_job()] {
        create_object(cluster, "default", object).await;
    }
    user(cluster).all().create(&namespace("doomed")).await.unwrap();
    for n in 0..5 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("doomed-{n}"), "namespace": "doomed", "finalizers": []},
        });
        create_object(cluster, "doomed", map).await;
    }
}

async fn change_templates(cluster: &Cluster) {
    set_image::<Deployment>(cluster, "web", "example.com/app:2").await;
    set_image::<Deployment>(cluster, "once", "example.com/app:2").await;
    set_image::<StatefulSet>(cluster, "db", "example.com/app:2").await;
    set_image::<DaemonSet>(cluster, "agent", "example.com/app:2").await;
    end_of_job(cluster, &["Succeeded", "Failed"]).await;
    own_a_map(cluster).await;
}

async fn grow_and_shrink(cluster: &Cluster) {
    scale::<Deployment>(cluster, "web", 6).await;
    scale::<Deployment>(cluster, "once", 1).await;
    scale::<StatefulSet>(cluster, "db", 3).await;
    end_of_job(cluster, &["Succeeded", "Succeeded"]).await;
    let namespaces = user(cluster).all::<Namespace>();
    namespaces
        .delete("doomed", DeleteOptions::default())
        .await
        .unwrap();
}

async fn leave(cluster: &Cluster) {
    let delete = |propagation| DeleteOptions {
        propagation_policy: Some(propagation),
        ..DeleteOptions::default()
    };
    let client = user(cluster);
    let deployments = client.namespaced::<Deployment>("default");
    deployments
        .delete("web", delete(DeletionPropagation::Foreground))
        .await
        .unwrap();
    deployments
        .delete("once", delete(DeletionPropagation::Background))
        .await
        .unwrap();
    let daemons = client.namespaced::<DaemonSet>("default");
    daemons
        .delete("agent", delete(DeletionPropagation::Orphan))
        .await
        .unwrap();
    let crons = client.namespaced::<CronJob>("default");
    crons
        .delete("tick", delete(DeletionPropagation::Background))
        .await
        .unwrap();
    scale::<StatefulSet>(cluster, "db", 0).await;
}

/// Finishes pods of the Job with these phases.
async fn end_of_job(cluster: &Cluster, phases: &[&str]) {
    let handle = user(cluster).namespaced("default");
    let is_of_job = |pod: &k8s_openapi::api::core::v1::Pod| name(pod).starts_with("sum-");
    let pods = active(cluster).into_iter().filter(is_of_job);
    for (mut pod, phase) in pods.zip(phases) {
        pod.status.get_or_insert_default().phase = Some((*phase).to_owned());
        handle.update_status(&pod).await.unwrap();
    }
}

/// An object with an owner that does not exist.
async fn own_a_map(cluster: &Cluster) {
    let mut map: ConfigMap = config_map("owned", "key", "value");
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-0000-0000-000000000000",
    }]);
    map.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
    create(cluster, &map).await;
}

pub(crate) async fn create_object(cluster: &Cluster, namespace: &str, body: Value) {
    let (version, kind) = (
        body["apiVersion"].as_str().unwrap(),
        body["kind"].as_str().unwrap(),
    );
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvr = Gvr::new(group, version, &format!("{}s", kind.to_lowercase()));
    let handle = user(cluster).dynamic(gvr, namespace);
    handle.create(body.to_string()).await.unwrap();
}

pub(crate) fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")},
    })
}

/// A CronJob that fires a minute after the start of a test's clock, and then not for a year.
fn cron_job() -> Value {
    let mut template = template("tick");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": "1 8 15 1 *", "jobTemplate": {"spec": {"template": template}}},
    })
}

fn budget() -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    })
}

fn quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "all"},
        "spec": {"hard": {"count/deployments.apps": "10", "services": "10"}},
    })
}
