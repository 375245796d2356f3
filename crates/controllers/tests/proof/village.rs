//! A bit of everything, and what happens to it: objects for most controllers, changed three times over.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_api::options::{DeleteOptions, Propagation};
use setpoint_testkit::{Cluster, Part, config_map, deployment, namespace, service};

use crate::world::*;

/// What runs beside the server.
pub(crate) fn parts() -> Vec<Part> {
    let controllers = setpoint_controllers::all().into_iter().map(|one| one.name);
    let controllers = controllers.map(Part::Controller);
    controllers.chain([Part::Scheduler, Part::nodes(2)]).collect()
}

/// How often the objects are changed.
pub(crate) const CHAPTERS: usize = 4;

/// One change after the other. Each chapter begins once the one before has come to its end.
pub(crate) async fn tell(cluster: &Cluster, chapter: usize) {
    // What asks for so many objects is large.
    match chapter {
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
    create(cluster, &stateful_set(2, "OrderedReady")).await;
    create(cluster, &job(2, 3)).await;
    for object in [daemon_set(), budget(), quota(), cron_job()] {
        create_document(cluster, "default", object).await;
    }
    user(cluster).all().create(&namespace("doomed")).await.unwrap();
    for n in 0..5 {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("doomed-{n}"), "namespace": "doomed", "finalizers": []},
        });
        create_document(cluster, "doomed", map).await;
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
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    let client = user(cluster);
    let deployments = client.namespaced::<Deployment>("default");
    deployments
        .delete("web", delete(Propagation::Foreground))
        .await
        .unwrap();
    deployments
        .delete("once", delete(Propagation::Background))
        .await
        .unwrap();
    let daemons = client.namespaced::<DaemonSet>("default");
    daemons
        .delete("agent", delete(Propagation::Orphan))
        .await
        .unwrap();
    let crons = client.namespaced::<CronJob>("default");
    crons
        .delete("tick", delete(Propagation::Background))
        .await
        .unwrap();
    scale::<StatefulSet>(cluster, "db", 0).await;
}

/// Brings pods of the Job to their end.
async fn end_of_job(cluster: &Cluster, phases: &[&str]) {
    let handle = user(cluster).namespaced("default");
    let is_of_job = |pod: &k8s_openapi::api::core::v1::Pod| name(pod).starts_with("sum-");
    let pods = active(cluster).into_iter().filter(is_of_job);
    for (mut pod, phase) in pods.zip(phases) {
        pod.status.get_or_insert_default().phase = Some((*phase).to_owned());
        handle.update_status(&pod).await.unwrap();
    }
}

/// An object with an owner that is not there.
async fn own_a_map(cluster: &Cluster) {
    let mut map: ConfigMap = config_map("owned", "key", "value");
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-0000-0000-000000000000",
    }]);
    map.metadata.owner_references = Some(serde_json::from_value(owner).unwrap());
    create(cluster, &map).await;
}

pub(crate) async fn create_document(cluster: &Cluster, namespace: &str, document: Value) {
    let (version, kind) = (
        document["apiVersion"].as_str().unwrap(),
        document["kind"].as_str().unwrap(),
    );
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvr = Gvr::new(group, version, &format!("{}s", kind.to_lowercase()));
    let handle = user(cluster).dynamic(gvr, namespace);
    handle.create(document.to_string()).await.unwrap();
}

pub(crate) fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")},
    })
}

/// One that strikes a minute after the clock of a test starts, and then not for a year.
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
