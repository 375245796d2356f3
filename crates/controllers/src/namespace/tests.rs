//! The controller against a real registry.

use setpoint_api::options::DeleteOptions;
use setpoint_testkit::{Cluster, Component, config_map, namespace, pod};

use super::*;

const NAMESPACES: Component = Component::Controller("namespace");

async fn fill(cluster: &Cluster, finalizer: Option<&str>) {
    let client = cluster.client("test");
    client.all().create(&namespace("team")).await.unwrap();
    let mut map = config_map("settings", "key", "value");
    map.metadata.namespace = Some("team".to_owned());
    map.metadata.finalizers = finalizer.map(|one| vec![one.to_owned()]);
    client.namespaced("team").create(&map).await.unwrap();
    let pod = pod("web").in_namespace("team").on("node-0").build();
    client.namespaced("team").create(&pod).await.unwrap();
}

async fn delete(cluster: &Cluster) {
    let namespaces = cluster.client("test").all::<Namespace>();
    namespaces.delete("team", DeleteOptions::default()).await.unwrap();
}

fn message(cluster: &Cluster, type_: &str) -> Option<String> {
    let namespace: Namespace = cluster.find("team")?;
    let conditions = namespace.status?.conditions?;
    let found = conditions
        .into_iter()
        .find(|one| one.type_ == type_ && one.status == "True");
    found?.message
}

#[tokio::test]
async fn a_deleted_namespace_loses_its_content_and_then_itself() {
    let (cluster, _components) = Cluster::with([NAMESPACES, Component::nodes(1)]).await;
    fill(&cluster, None).await;
    delete(&cluster).await;
    cluster
        .until("no namespace", |cluster| {
            cluster.find::<Namespace>("team").is_none()
        })
        .await;
    let all = cluster
        .cache::<k8s_openapi::api::core::v1::ConfigMap>()
        .snapshot();
    assert_eq!(all.in_namespace("team").count(), 0);
    assert!(cluster.list::<Pod>().is_empty());
    assert!(cluster.find::<Namespace>("default").is_some());
}

#[tokio::test]
async fn pods_are_deleted_first_and_remaining_content_is_reported() {
    let (cluster, _components) = Cluster::with([NAMESPACES]).await;
    fill(&cluster, None).await;
    delete(&cluster).await;
    cluster
        .until("the condition", |cluster| {
            message(cluster, "NamespaceContentRemaining").is_some()
        })
        .await;
    assert_eq!(
        message(&cluster, "NamespaceContentRemaining").unwrap(),
        "Some resources are remaining: pods has 1 resource instances"
    );
    let all = cluster
        .cache::<k8s_openapi::api::core::v1::ConfigMap>()
        .snapshot();
    assert_eq!(all.in_namespace("team").count(), 1);
    let _node = cluster.run(Component::nodes(1));
    cluster
        .until("no namespace", |cluster| {
            cluster.find::<Namespace>("team").is_none()
        })
        .await;
}

#[tokio::test]
async fn a_finalizer_in_the_namespace_holds_it_back_until_it_is_gone() {
    let (cluster, _components) = Cluster::with([NAMESPACES, Component::nodes(1)]).await;
    fill(&cluster, Some("example.com/mine")).await;
    delete(&cluster).await;
    cluster
        .until("the condition", |cluster| {
            message(cluster, "NamespaceFinalizersRemaining").is_some()
        })
        .await;
    let maps = cluster
        .client("test")
        .namespaced::<k8s_openapi::api::core::v1::ConfigMap>("team");
    let mut map = maps.get("settings").await.unwrap().to_owned().unwrap();
    map.metadata.finalizers = None;
    maps.update(&map).await.unwrap();
    cluster
        .until("no namespace", |cluster| {
            cluster.find::<Namespace>("team").is_none()
        })
        .await;
}

/// Objects of a kind that was added after the controller started are deleted with their namespace.
#[tokio::test]
async fn objects_of_a_kind_added_later_are_deleted_too() {
    let (cluster, _components) = Cluster::with([NAMESPACES]).await;
    let gvr = cluster.define_custom_kind("things", "Thing").await;
    let client = cluster.client("test");
    client.all().create(&namespace("team")).await.unwrap();
    let thing = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"}}"#;
    let things = client.dynamic(gvr, "team");
    things.create(thing).await.unwrap();
    // A namespace that is not in the cache yet must not count as deleted.
    cluster.settle().await;
    delete(&cluster).await;
    cluster
        .until("no namespace", |cluster| {
            cluster.find::<Namespace>("team").is_none()
        })
        .await;
    let remaining = things.list(&ListOptions::default()).await.unwrap().items;
    assert!(remaining.is_empty());
}
