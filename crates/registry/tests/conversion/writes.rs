//! Writes in a version that is not stored.

use serde_json::{Value, json};

use setpoint_api::call::Body;
use setpoint_api::options::{DeleteOptions, ListOptions, PatchType, WriteOptions};
use setpoint_api::{Status, Verb};

use crate::cluster::payload;
use crate::fixture::{Widgets, all, manager, one, tester, widget};

#[tokio::test]
async fn an_object_is_created_in_every_version() {
    let widgets = Widgets::start().await;
    let created = widgets
        .create("v1", "a", json!({"address": "h:1"}))
        .await
        .unwrap();
    assert_eq!(
        (&created["apiVersion"], &created["spec"]),
        (&json!("example.com/v1"), &json!({"address": "h:1", "size": "v1"}))
    );
    assert_eq!(widgets.webhook.take_reviews(), ["v2: a", "v1: a"]);
    let stored = widgets.stored("a");
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]),
        (
            &json!("example.com/v2"),
            &json!({"host": "h", "port": "1", "size": "v1"})
        )
    );
    assert_eq!(
        stored["metadata"]["managedFields"][0]["apiVersion"],
        "example.com/v1"
    );
}

#[tokio::test]
async fn a_dry_run_is_converted_and_not_stored() {
    let widgets = Widgets::start().await;
    let options = WriteOptions {
        dry_run: true,
        ..tester()
    };
    let body = payload(&widget("v1", "a", json!({"address": "h:1"})));
    let created = widgets
        .call(all("v1"), Verb::Create(body, options))
        .await
        .unwrap();
    assert_eq!(created["spec"]["address"], "h:1");
    assert!(created["metadata"].get("resourceVersion").is_none());
    assert!(widgets.get("v1", "a").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_object_is_updated_in_every_version() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    let mut object = widgets.get("v1", "a").await.unwrap();
    object["spec"]["address"] = json!("new:2");
    let verb = Verb::Update(payload(&object), tester());
    let updated = widgets.call(one("v1", "a"), verb).await.unwrap();
    assert_eq!(updated["spec"]["address"], "new:2");
    assert_eq!(updated["metadata"]["generation"], 2);
    assert_eq!(widgets.spec("v2", "a").await["host"], "new");
}

#[tokio::test]
async fn an_update_without_changes_is_not_stored() {
    let widgets = Widgets::start().await;
    widgets
        .create("v1", "a", json!({"address": "h:1"}))
        .await
        .unwrap();
    let object = widgets.get("v1", "a").await.unwrap();
    let verb = Verb::Update(payload(&object), tester());
    let updated = widgets.call(one("v1", "a"), verb).await.unwrap();
    assert_eq!(updated["metadata"], object["metadata"]);
}

#[tokio::test]
async fn patches_apply_to_the_object_in_the_requested_version() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    let merge = json!({"spec": {"address": "merge:1"}});
    let patched = widgets.patch(one("v1", "a"), PatchType::Merge, merge).await;
    assert_eq!(patched.unwrap()["spec"]["address"], "merge:1");
    let replace =
        |path: &str| json!([{"op": "remove", "path": path}, {"op": "add", "path": path, "value": "json:1"}]);
    let patched = widgets
        .patch(one("v1", "a"), PatchType::Json, replace("/spec/address"))
        .await;
    assert_eq!(patched.unwrap()["spec"]["address"], "json:1");
    let absent = widgets
        .patch(one("v1", "a"), PatchType::Json, replace("/spec/host"))
        .await;
    assert_eq!(absent.unwrap_err().code, 422);
    assert_eq!(widgets.spec("v2", "a").await["host"], "json");
}

/// Applies a configuration as a manager.
async fn apply(widgets: &Widgets, version: &str, by: &str, spec: Value) -> Result<Value, Status> {
    let body = payload(&widget(version, "a", spec));
    let verb = Verb::Patch(PatchType::Apply, body, manager(by));
    widgets.call(one(version, "a"), verb).await
}

#[tokio::test]
async fn managers_of_different_versions_own_fields_of_one_object() {
    let widgets = Widgets::start().await;
    let applied = apply(&widgets, "v1", "one", json!({"address": "h:1"}))
        .await
        .unwrap();
    assert_eq!(applied["spec"]["address"], "h:1");
    let applied = apply(&widgets, "v2", "two", json!({"replicas": 3}))
        .await
        .unwrap();
    assert_eq!(
        applied["spec"],
        json!({"host": "h", "port": "1", "replicas": 3, "size": "v1"})
    );
    let versions: Vec<&Value> = applied["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["apiVersion"])
        .collect();
    assert_eq!(versions, ["example.com/v1", "example.com/v2"]);
    let conflict = apply(&widgets, "v1", "two", json!({"address": "other:1"}))
        .await
        .unwrap_err();
    assert!(conflict.is_conflict(), "{}", conflict.message);
    assert!(
        conflict.message.contains("conflict with \"one\""),
        "{}",
        conflict.message
    );
}

#[tokio::test]
async fn a_write_in_another_version_takes_fields_from_their_manager() {
    let widgets = Widgets::start().await;
    apply(&widgets, "v1", "one", json!({"address": "h:1"}))
        .await
        .unwrap();
    let merge = json!({"spec": {"host": "other"}});
    let patched = widgets
        .patch(one("v2", "a"), PatchType::Merge, merge)
        .await
        .unwrap();
    let entries = patched["metadata"]["managedFields"].as_array().unwrap();
    let owned = |entry: &Value| format!("{} {}", entry["manager"], entry["fieldsV1"]);
    let owned: Vec<String> = entries.iter().map(owned).collect();
    assert_eq!(owned, [r#""tester" {"f:spec":{"f:host":{}}}"#]);
}

#[tokio::test]
async fn status_and_scale_are_written_in_every_version() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1", "replicas": 2}))
        .await
        .unwrap();
    let status = json!({"status": {"replicas": 1}});
    let target = one("v1", "a").subresource("status");
    let patched = widgets.patch(target, PatchType::Merge, status).await.unwrap();
    assert_eq!(patched["status"], json!({"replicas": 1}));
    let target = || one("v1", "a").subresource("scale");
    let scale = widgets
        .call(target(), Verb::Get(setpoint_api::options::GetOptions::default()))
        .await;
    let mut scale = scale.unwrap();
    assert_eq!(
        (&scale["spec"], &scale["status"]),
        (&json!({"replicas": 2}), &json!({"replicas": 1}))
    );
    scale["spec"]["replicas"] = json!(5);
    let scaled = widgets
        .call(target(), Verb::Update(payload(&scale), tester()))
        .await;
    assert_eq!(scaled.unwrap()["spec"], json!({"replicas": 5}));
    assert_eq!(
        widgets.spec("v2", "a").await,
        json!({"host": "h", "port": "1", "replicas": 5, "size": "v2"})
    );
}

#[tokio::test]
async fn an_object_is_deleted_in_every_version() {
    let widgets = Widgets::start().await;
    widgets
        .create("v2", "a", json!({"host": "h", "port": "1"}))
        .await
        .unwrap();
    let deleted = widgets
        .call(one("v1", "a"), Verb::Delete(DeleteOptions::default()))
        .await;
    assert_eq!(deleted.unwrap(), json!({"status": "Success"}));
    assert!(widgets.get("v2", "a").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn an_object_with_finalizers_is_marked_and_then_removed() {
    let widgets = Widgets::start().await;
    let mut object = widget("v1", "a", json!({"address": "h:1"}));
    object["metadata"]["finalizers"] = json!(["example.com/f"]);
    widgets
        .call(all("v1"), Verb::Create(payload(&object), tester()))
        .await
        .unwrap();
    let marked = widgets
        .call(one("v1", "a"), Verb::Delete(DeleteOptions::default()))
        .await
        .unwrap();
    assert_eq!(marked["spec"]["address"], "h:1");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let release = json!({"metadata": {"finalizers": null}});
    let released = widgets
        .patch(one("v1", "a"), PatchType::Merge, release)
        .await
        .unwrap();
    assert_eq!(released["spec"]["address"], "h:1");
    assert!(widgets.get("v1", "a").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_collection_is_deleted_and_returned_in_the_requested_version() {
    let widgets = Widgets::start().await;
    for name in ["a", "b"] {
        widgets
            .create("v2", name, json!({"host": "h", "port": "1"}))
            .await
            .unwrap();
    }
    let verb = Verb::DeleteCollection(DeleteOptions::default(), ListOptions::default());
    let response = widgets.cluster.call(all("v1"), verb).await.unwrap();
    let Body::List(list) = response.body else {
        panic!("deletecollection returns the list");
    };
    assert_eq!(
        crate::fixture::specs(&list),
        [
            r#"a {"address":"h:1","size":"v2"}"#,
            r#"b {"address":"h:1","size":"v2"}"#
        ]
    );
    assert!(
        widgets
            .list("v2", ListOptions::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn a_new_storage_version_is_used_by_the_next_write() {
    let widgets = Widgets::start().await;
    for name in ["a", "b"] {
        widgets
            .create("v2", name, json!({"host": name, "port": "1"}))
            .await
            .unwrap();
    }
    widgets.store_as("v1").await;
    assert_eq!(widgets.stored("a")["apiVersion"], "example.com/v2");
    let object = widgets.get("v1", "a").await.unwrap();
    widgets
        .call(one("v1", "a"), Verb::Update(payload(&object), tester()))
        .await
        .unwrap();
    let crd = widgets
        .cluster
        .get(crate::fixture::CRDS, "widgets.example.com")
        .await
        .unwrap();
    for version in ["v1", "v2"] {
        let list = widgets.list(version, ListOptions::default()).await.unwrap();
        assert_eq!(list.items.len(), 2);
    }
    assert_eq!(widgets.stored("a")["apiVersion"], "example.com/v1");
    assert_eq!(widgets.stored("b")["apiVersion"], "example.com/v2");
    assert_eq!(widgets.spec("v1", "b").await["address"], "b:1");
    assert_eq!(widgets.spec("v2", "a").await["host"], "a");
    let stored = &crate::cluster::value(&crd)["status"]["storedVersions"];
    assert_eq!(stored, &json!(["v2", "v1"]));
}
