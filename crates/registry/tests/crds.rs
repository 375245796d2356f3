//! CustomResourceDefinitions: accepted, served, changed, and deleted with their objects.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use serde_json::{Value, json};

use cluster::{Cluster, value};
use setpoint_api::options::{DeleteOptions, ListOptions};

fn crd(plural: &str, kind: &str) -> Value {
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

/// Waits until the CRD has the condition with this status.
async fn wait_for(cluster: &Cluster, name: &str, condition: &str, status: &str) -> Value {
    let is_it = |own: &Value| own["type"] == condition && own["status"] == status;
    let (crd, _) = wait_until(cluster, name, is_it).await;
    crd
}

/// Waits until the CRD has the condition. Returns the condition.
async fn wait_for_any(cluster: &Cluster, name: &str, condition: &str) -> Value {
    let (_, found) = wait_until(cluster, name, |own| own["type"] == condition).await;
    found
}

async fn wait_until(cluster: &Cluster, name: &str, is_it: impl Fn(&Value) -> bool) -> (Value, Value) {
    for _ in 0..1000 {
        let object = cluster
            .get("customresourcedefinitions.apiextensions.k8s.io", name)
            .await;
        let found = value(&object.unwrap());
        let conditions = found["status"]["conditions"].as_array();
        let condition = conditions.into_iter().flatten().find(|own| is_it(own)).cloned();
        if let Some(condition) = condition {
            return (found, condition);
        }
        tokio::task::yield_now().await;
    }
    panic!("{name} never has the condition");
}

#[tokio::test]
async fn a_custom_kind_is_served_and_validated_by_its_schema() {
    let cluster = Cluster::start().await;
    assert!(cluster.create(&widget("a", json!({}))).await.is_err());
    cluster
        .create(&crd("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;

    let made = value(&cluster.create(&widget("a", json!({"other": 1}))).await.unwrap());
    assert_eq!(made["spec"], json!({"size": 3}));
    let rejected = cluster
        .create(&widget("b", json!({"size": 0})))
        .await
        .unwrap_err();
    assert_eq!(
        rejected.message,
        "Widget.example.com \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    let list = cluster
        .list("widgets.example.com", ListOptions::default())
        .await
        .unwrap();
    assert_eq!(list.items.len(), 1);
}

/// A client that reads `Established` may use the resource at once; twenty times in a row.
#[tokio::test]
async fn an_established_crd_is_served() {
    let cluster = Cluster::start().await;
    for i in 0..20 {
        let (plural, kind) = (format!("thing{i}s"), format!("Thing{i}"));
        let made = cluster.create(&crd(&plural, &kind).to_string()).await;
        made.unwrap();
        wait_for(&cluster, &format!("{plural}.example.com"), "Established", "True").await;
        let object = json!({
            "apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a", "namespace": "default"},
        });
        cluster.create(&object.to_string()).await.unwrap();
    }
}

#[tokio::test]
async fn of_two_crds_at_once_one_gets_the_kind() {
    let cluster = Cluster::start().await;
    let both = [crd("widgets", "Widget"), crd("gadgets", "Widget")];
    for crd in &both {
        cluster.create(&crd.to_string()).await.unwrap();
    }
    let accepted = async |name: &str| {
        let found = wait_for_any(&cluster, name, "NamesAccepted").await;
        found["status"] == "True"
    };
    let got = [
        accepted("widgets.example.com").await,
        accepted("gadgets.example.com").await,
    ];
    assert_eq!(got.iter().filter(|got| **got).count(), 1);
}

/// Validation is by the version of the request, though the storage version does not have the field.
#[tokio::test]
async fn a_field_of_another_version_only_is_validated_and_not_stored() {
    let cluster = Cluster::start().await;
    let mut crd = crd("widgets", "Widget");
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"old": {"type": "string"}}}}}});
    let versions = crd["spec"]["versions"].as_array_mut().unwrap();
    versions.push(json!({"name": "v1beta1", "served": true, "storage": false, "schema": schema}));
    cluster.create(&crd.to_string()).await.unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    let beta = |spec: Value| widget("a", spec).replace("example.com/v1", "example.com/v1beta1");
    let rejected = cluster.create(&beta(json!({"old": 7}))).await.unwrap_err();
    assert!(
        rejected
            .message
            .contains("spec.old in body must be of type string"),
        "{rejected:?}"
    );
    let made = value(&cluster.create(&beta(json!({"old": "x"}))).await.unwrap());
    assert_eq!(made["spec"], json!({}));
}

#[tokio::test]
async fn a_kind_that_is_taken_is_not_served_twice() {
    let cluster = Cluster::start().await;
    cluster
        .create(&crd("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    cluster
        .create(&crd("gadgets", "Widget").to_string())
        .await
        .unwrap();
    let rejected = wait_for(&cluster, "gadgets.example.com", "NamesAccepted", "False").await;
    assert_eq!(rejected["status"]["conditions"][0]["reason"], "ListKindConflict");
}

#[tokio::test]
async fn a_deleted_crd_deletes_its_objects() {
    let cluster = Cluster::start().await;
    cluster
        .create(&crd("widgets", "Widget").to_string())
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

    // Created again it is empty.
    cluster
        .create(&crd("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    let list = cluster
        .list("widgets.example.com", ListOptions::default())
        .await
        .unwrap();
    assert!(list.items.is_empty());
}

#[tokio::test]
async fn a_terminating_crd_reports_that_objects_are_left() {
    let cluster = Cluster::start().await;
    cluster
        .create(&crd("widgets", "Widget").to_string())
        .await
        .unwrap();
    wait_for(&cluster, "widgets.example.com", "Established", "True").await;
    let mut held: Value = serde_json::from_str(&widget("a", json!({}))).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.create(&held.to_string()).await.unwrap();
    let resource = "customresourcedefinitions.apiextensions.k8s.io";
    let options = DeleteOptions::default();
    cluster
        .delete(resource, "widgets.example.com", options)
        .await
        .unwrap();
    let (_, condition) = wait_until(&cluster, "widgets.example.com", |own| {
        own["reason"] == "InstanceDeletionInProgress"
    })
    .await;
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("Terminating"), &json!("True"))
    );
}
