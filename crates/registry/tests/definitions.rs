//! The life of a definition: accepted, served, changed, and gone with all that it defined.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use serde_json::{Value, json};

use cluster::{Cluster, value};
use setpoint_api::options::{DeleteOptions, ListOptions};

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "minimum": 1, "default": 3}}}}}}}],
        },
    })
}

fn widget(name: &str, spec: Value) -> String {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
    .to_string()
}

/// Waits until the definition says this of itself.
async fn wait_for(cluster: &Cluster, name: &str, condition: &str, status: &str) -> Value {
    for _ in 0..1000 {
        let object = cluster
            .get("customresourcedefinitions.apiextensions.k8s.io", name)
            .await;
        let found = value(&object.unwrap());
        let conditions = found["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_it = |own: &Value| own["type"] == condition && own["status"] == status;
        if conditions.iter().any(is_it) {
            return found;
        }
        tokio::task::yield_now().await;
    }
    panic!("{name} never says {condition}={status}");
}

#[tokio::test]
async fn what_a_definition_defines_is_served_by_its_rules() {
    let cluster = Cluster::start().await;
    assert!(cluster.create(&widget("a", json!({}))).await.is_err());
    cluster
        .create(&definition("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;

    let made = value(&cluster.create(&widget("a", json!({"other": 1}))).await.unwrap());
    assert_eq!(made["spec"], json!({"size": 3}));
    let refused = cluster
        .create(&widget("b", json!({"size": 0})))
        .await
        .unwrap_err();
    assert_eq!(
        refused.message,
        "Widget.example.com \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    let list = cluster
        .list("widgets.example.com", ListOptions::default())
        .await
        .unwrap();
    assert_eq!(list.items.len(), 1);
}

#[tokio::test]
async fn a_kind_that_is_taken_is_not_served_twice() {
    let cluster = Cluster::start().await;
    cluster
        .create(&definition("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    cluster
        .create(&definition("gadgets", "Widget").to_string())
        .await
        .unwrap();
    let refused = wait_for(&cluster, "gadgets.example.com", "NamesAccepted", "False").await;
    assert_eq!(refused["status"]["conditions"][0]["reason"], "ListKindConflict");
}

#[tokio::test]
async fn a_definition_takes_its_objects_with_it() {
    let cluster = Cluster::start().await;
    cluster
        .create(&definition("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    cluster.create(&widget("a", json!({}))).await.unwrap();
    let resource = "customresourcedefinitions.apiextensions.k8s.io";
    cluster
        .delete(resource, "widgets.example.com", DeleteOptions::default())
        .await
        .unwrap();
    for _ in 0..1000 {
        if cluster.get(resource, "widgets.example.com").await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(cluster.get(resource, "widgets.example.com").await.is_err());
    assert!(cluster.get("widgets.example.com", "default/a").await.is_err());

    // Defined again it is empty.
    cluster
        .create(&definition("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    let list = cluster
        .list("widgets.example.com", ListOptions::default())
        .await
        .unwrap();
    assert!(list.items.is_empty());
}
