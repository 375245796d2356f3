//! The controller against a real registry, with the scheduler and nodes.

use k8s_openapi::api::apps::v1::{StatefulSetSpec, StatefulSetStatus};
use setpoint_testkit::{Cluster, Component, persistent_volume, replica_set};

use super::*;

const SETS: Component = Component::Controller("statefulset");
/// Binds the claims of the pods, which wait for a node until then.
const VOLUMES: Component = Component::Controller("persistentvolume-binder");

fn stateful_set(replicas: i32) -> StatefulSet {
    let model = replica_set("db").build();
    let mut claim = PersistentVolumeClaim::default();
    claim.metadata.name = Some("data".to_owned());
    let spec =
        serde_json::json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    claim.spec = Some(serde_json::from_value(spec).unwrap());
    StatefulSet {
        metadata: model.metadata,
        spec: StatefulSetSpec {
            replicas: Some(replicas),
            selector: model.spec.selector,
            service_name: Some("db".to_owned()),
            template: model.spec.template.unwrap_or_default(),
            volume_claim_templates: Some(vec![claim]),
            ..StatefulSetSpec::default()
        },
        status: None,
    }
}

/// Creates volumes for the claims of as many pods.
async fn create_volumes(cluster: &Cluster, count: usize) {
    let volumes = cluster.client("test").all();
    for number in 0..count {
        let volume = persistent_volume(&format!("volume-{number}"));
        volumes.create(&volume).await.unwrap();
    }
}

fn seen(cluster: &Cluster) -> StatefulSetStatus {
    let set: Option<StatefulSet> = cluster.find("db");
    set.and_then(|set| set.status).unwrap_or_default()
}

fn names(cluster: &Cluster) -> Vec<String> {
    let pods: Vec<v1::Pod> = cluster.list();
    pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
}

async fn edit(cluster: &Cluster, change: impl Fn(&mut StatefulSetSpec)) {
    let handle = cluster.client("test").namespaced::<StatefulSet>("default");
    setpoint_runtime::retry_on_conflict(10, || async {
        let mut set = handle.get("db").await?.to_owned()?;
        change(&mut set.spec);
        handle.update(&set).await
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn pods_have_ordinals_and_claims_and_are_scaled_in_order() {
    let (cluster, _components) =
        Cluster::with([SETS, VOLUMES, Component::Scheduler, Component::nodes(2)]).await;
    create_volumes(&cluster, 3).await;
    cluster
        .client("test")
        .namespaced("default")
        .create(&stateful_set(3))
        .await
        .unwrap();
    cluster
        .until("three pods", |cluster| {
            let names = names(cluster);
            assert!(
                ["db-0", "db-1", "db-2"].starts_with(&names.iter().map(String::as_str).collect::<Vec<_>>()),
                "{names:?}"
            );
            seen(cluster).available_replicas == Some(3)
        })
        .await;
    let claims: Vec<PersistentVolumeClaim> = cluster.list();
    let claims: Vec<_> = claims
        .into_iter()
        .filter_map(|claim| claim.metadata.name)
        .collect();
    assert_eq!(claims, ["data-db-0", "data-db-1", "data-db-2"]);
    let pod: v1::Pod = cluster.find("db-1").unwrap();
    let labels = pod.metadata.labels.unwrap();
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    let spec = pod.spec.unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("db-1"), Some("db"))
    );
    edit(&cluster, |spec| spec.replicas = Some(1)).await;
    cluster
        .until("one pod", |cluster| {
            names(cluster) == ["db-0"] && seen(cluster).replicas == 1
        })
        .await;
    assert_eq!(cluster.list::<PersistentVolumeClaim>().len(), 3);
}

#[tokio::test]
async fn a_new_template_replaces_the_pods_from_the_highest_on() {
    let (cluster, _components) =
        Cluster::with([SETS, VOLUMES, Component::Scheduler, Component::nodes(2)]).await;
    create_volumes(&cluster, 3).await;
    cluster
        .client("test")
        .namespaced("default")
        .create(&stateful_set(3))
        .await
        .unwrap();
    cluster
        .until("three pods", |cluster| {
            seen(cluster).available_replicas == Some(3)
        })
        .await;
    let before = seen(&cluster).update_revision;
    edit(&cluster, |spec| {
        spec.template.spec.as_mut().unwrap().containers[0].image = Some("example.com/app:2".to_owned());
    })
    .await;
    cluster
        .until("three new pods", |cluster| {
            let status = seen(cluster);
            status.update_revision != before
                && status.current_revision == status.update_revision
                && status.available_replicas == Some(3)
        })
        .await;
    assert_eq!(cluster.list::<ControllerRevision>().len(), 2);
}

/// CL5
#[tokio::test]
async fn cl5_further_reconciles_of_a_settled_set_write_nothing() {
    let (cluster, _components) =
        Cluster::with([SETS, VOLUMES, Component::Scheduler, Component::nodes(1)]).await;
    create_volumes(&cluster, 3).await;
    cluster
        .client("test")
        .namespaced("default")
        .create(&stateful_set(2))
        .await
        .unwrap();
    cluster
        .until("two pods", |cluster| seen(cluster).available_replicas == Some(2))
        .await;
    cluster.settle().await;
    cluster.interceptor.clear();
    let context = cluster.context(NAME);
    let sets = StatefulSets::new(&context).unwrap();
    for _ in 0..10 {
        sets.reconcile(&Key::new("default", "db"), &context.client)
            .await
            .unwrap();
    }
    assert_eq!(cluster.interceptor.writes(), Vec::<String>::new());
}
