//! The collector against a real registry.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint_testkit::{Cluster, Component, config_map};

use super::*;

const COLLECTOR: Component = Component::Controller("garbage-collector");

/// A ConfigMap with these owners.
async fn create(cluster: &Cluster, name: &str, owners: &[&str]) {
    let references = owners.iter().map(|owner| {
        let owner: ConfigMap = cluster.find(owner).unwrap();
        OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: owner.metadata.name.unwrap(),
            uid: owner.metadata.uid.unwrap(),
            block_owner_deletion: Some(true),
            controller: None,
        }
    });
    let mut map = config_map(name, "key", "value");
    map.metadata.owner_references = Some(references.collect());
    cluster
        .client("test")
        .namespaced("default")
        .create(&map)
        .await
        .unwrap();
    cluster.settle().await;
}

async fn delete(cluster: &Cluster, name: &str, propagation: DeletionPropagation) {
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    let options = DeleteOptions {
        propagation_policy: Some(propagation),
        ..DeleteOptions::default()
    };
    maps.delete(name, options).await.unwrap();
}

/// Waits until exactly these are left.
async fn left(cluster: &Cluster, expected: &[&str]) {
    let names = |cluster: &Cluster| {
        let maps: Vec<ConfigMap> = cluster.list();
        maps.into_iter()
            .filter_map(|map| map.metadata.name)
            .collect::<Vec<_>>()
    };
    cluster
        .until(&format!("{expected:?} alone"), |cluster| {
            names(cluster) == expected
        })
        .await;
    cluster.settle().await;
    assert_eq!(names(cluster), expected);
}

fn owners(cluster: &Cluster, name: &str) -> Vec<String> {
    let map: ConfigMap = cluster.find(name).unwrap();
    let owners = map.metadata.owner_references.unwrap_or_default();
    owners.into_iter().map(|owner| owner.name).collect()
}

#[tokio::test]
async fn dependents_are_deleted_after_their_owner_level_by_level() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    create(&cluster, "a", &[]).await;
    create(&cluster, "b", &["a"]).await;
    create(&cluster, "c", &["b"]).await;
    create(&cluster, "other", &[]).await;
    delete(&cluster, "a", DeletionPropagation::Background).await;
    left(&cluster, &["other"]).await;
}

#[tokio::test]
async fn a_dependent_of_two_stays_with_the_one_that_is_left() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    create(&cluster, "a", &[]).await;
    create(&cluster, "b", &[]).await;
    create(&cluster, "c", &["a", "b"]).await;
    delete(&cluster, "a", DeletionPropagation::Background).await;
    left(&cluster, &["b", "c"]).await;
    cluster
        .until("one owner", |cluster| owners(cluster, "c") == ["b"])
        .await;
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_is_deleted_after_its_dependents() {
    let (cluster, _components) = Cluster::with([]).await;
    create(&cluster, "a", &[]).await;
    create(&cluster, "b", &["a"]).await;
    delete(&cluster, "a", DeletionPropagation::Foreground).await;
    left(&cluster, &["a", "b"]).await;
    let _collector = cluster.run(COLLECTOR);
    left(&cluster, &[]).await;
}

#[tokio::test]
async fn an_owner_that_orphans_releases_its_dependents_first() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    create(&cluster, "a", &[]).await;
    create(&cluster, "b", &["a"]).await;
    delete(&cluster, "a", DeletionPropagation::Orphan).await;
    left(&cluster, &["b"]).await;
    assert_eq!(owners(&cluster, "b"), Vec::<String>::new());
}

#[tokio::test]
async fn an_owner_that_never_existed_counts_as_gone() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    create(&cluster, "a", &[]).await;
    let mut map = config_map("b", "key", "value");
    let owner: ConfigMap = cluster.find("a").unwrap();
    map.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: owner.metadata.name.unwrap(),
        uid: "another-uid".to_owned(),
        ..OwnerReference::default()
    }]);
    cluster
        .client("test")
        .namespaced("default")
        .create(&map)
        .await
        .unwrap();
    left(&cluster, &["a"]).await;
}

#[tokio::test]
async fn an_owner_of_a_kind_that_is_not_served_is_left_alone() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    let mut map = config_map("b", "key", "value");
    map.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Thing".to_owned(),
        name: "x".to_owned(),
        uid: "x".to_owned(),
        ..OwnerReference::default()
    }]);
    cluster
        .client("test")
        .namespaced("default")
        .create(&map)
        .await
        .unwrap();
    cluster.settle().await;
    left(&cluster, &["b"]).await;
}

#[tokio::test]
async fn the_pods_of_a_deleted_set_are_deleted_with_it() {
    let (cluster, _components) = Cluster::with([COLLECTOR, Component::Controller("replicaset")]).await;
    let sets = cluster
        .client("test")
        .namespaced::<k8s_openapi::api::apps::v1::ReplicaSet>("default");
    sets.create(&setpoint_testkit::replica_set("web").replicas(4).build())
        .await
        .unwrap();
    cluster
        .until("four pods", |cluster| cluster.list::<Pod>().len() == 4)
        .await;
    sets.delete("web", DeleteOptions::default()).await.unwrap();
    cluster
        .until("no pod", |cluster| cluster.list::<Pod>().is_empty())
        .await;
    cluster.settle().await;
    assert!(cluster.list::<Pod>().is_empty());
}

/// A custom object with this metadata.
async fn create_custom(
    cluster: &Cluster,
    gvr: &setpoint_api::Gvr,
    name: &str,
    owner: Option<Value>,
) -> Value {
    let object = serde_json::json!({
        "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": {"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
    });
    let things = cluster.client("test").dynamic(gvr.clone(), "default");
    let created = things.create(object.to_string()).await.unwrap();
    created.decode().unwrap()
}

/// The garbage collector sees a resource that was added after it started, as dependents and as owners.
#[tokio::test]
async fn objects_of_a_kind_added_later_are_collected_too() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    let gvr = cluster.define_custom_kind("things", "Thing").await;
    create(&cluster, "a", &[]).await;
    let owner: ConfigMap = cluster.find("a").unwrap();
    let owner = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner.metadata.uid.unwrap(),
    });
    let thing = create_custom(&cluster, &gvr, "x", Some(owner)).await;
    let mut map = config_map("b", "key", "value");
    map.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Thing".to_owned(),
        name: "x".to_owned(),
        uid: thing["metadata"]["uid"].as_str().unwrap().to_owned(),
        ..OwnerReference::default()
    }]);
    let maps = cluster.client("test").namespaced("default");
    maps.create(&map).await.unwrap();
    cluster.settle().await;
    left(&cluster, &["a", "b"]).await;
    delete(&cluster, "a", DeletionPropagation::Background).await;
    left(&cluster, &[]).await;
}

#[tokio::test]
async fn dependents_of_a_kind_whose_crd_is_deleted_are_deleted_too() {
    let (cluster, _components) = Cluster::with([COLLECTOR]).await;
    let gvr = cluster.define_custom_kind("things", "Thing").await;
    let thing = create_custom(&cluster, &gvr, "x", None).await;
    let mut map = config_map("b", "key", "value");
    map.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Thing".to_owned(),
        name: "x".to_owned(),
        uid: thing["metadata"]["uid"].as_str().unwrap().to_owned(),
        ..OwnerReference::default()
    }]);
    let maps = cluster.client("test").namespaced("default");
    maps.create(&map).await.unwrap();
    let definitions = setpoint_api::Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let definitions = cluster.client("test").dynamic(definitions, "");
    let deleted = definitions.delete("things.example.com", DeleteOptions::default());
    deleted.await.unwrap();
    left(&cluster, &[]).await;
}
