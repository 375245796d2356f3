//! The controller against a real registry.

use setpoint_api::options::DeleteOptions;
use setpoint_testkit::{Cluster, Part, config_map, namespace, pod};

use super::*;

const NAMESPACES: Part = Part::Controller("namespace");

async fn fill(cluster: &Cluster, finalizer: Option<&str>) {
    let client = cluster.client("test");
    client.all().create(&namespace("team")).await.unwrap();
    let mut map = config_map("settings", "key", "value");
    map.metadata.namespace = Some("team".to_owned());
    map.metadata.finalizers = finalizer.map(|one| vec![one.to_owned()]);
    client.namespaced("team").create(&map).await.unwrap();
    let pod = pod("web").within("team").on("node-0").build();
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
async fn a_deleted_namespace_is_emptied_and_then_gone() {
    let (cluster, _parts) = Cluster::with([NAMESPACES, Part::nodes(1)]).await;
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
async fn pods_go_first_and_what_is_left_is_told() {
    let (cluster, _parts) = Cluster::with([NAMESPACES]).await;
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
    let _node = cluster.run(Part::nodes(1));
    cluster
        .until("no namespace", |cluster| {
            cluster.find::<Namespace>("team").is_none()
        })
        .await;
}

#[tokio::test]
async fn a_finalizer_in_the_namespace_holds_it_back_until_it_is_gone() {
    let (cluster, _parts) = Cluster::with([NAMESPACES, Part::nodes(1)]).await;
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

/// Objects of a kind that was defined after the controller started go with their namespace.
#[tokio::test]
async fn objects_of_a_kind_that_came_later_go_too() {
    let (cluster, _parts) = Cluster::with([NAMESPACES]).await;
    let gvr = cluster.define("things", "Thing").await;
    let client = cluster.client("test");
    client.all().create(&namespace("team")).await.unwrap();
    let thing = r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"}}"#;
    let things = client.dynamic(gvr, "team");
    things.create(thing).await.unwrap();
    // A namespace that the cache does not have yet is not one that is gone.
    cluster.settle().await;
    delete(&cluster).await;
    cluster
        .until("no namespace", |cluster| {
            cluster.find::<Namespace>("team").is_none()
        })
        .await;
    let left = things.list(&ListOptions::default()).await.unwrap().items;
    assert!(left.is_empty());
}
