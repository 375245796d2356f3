//! Patches of the Scale of a custom object, and the generation and managed fields of its updates.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use cluster::{Cluster, object, value};
use serde_json::{Value, json};
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{Payload, Status, Verb};

const WIDGETS: &str = "widgets.example.com";

/// A cluster with the widget `w`, which has 2 replicas.
async fn start() -> Cluster {
    let cluster = Cluster::start().await;
    let number = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": number, "size": number, "note": {"type": "string", "nullable": true},
        }},
        "status": {"type": "object", "properties": {"replicas": number}},
    }});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": WIDGETS},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
            }],
        },
    });
    cluster.create(&crd.to_string()).await.unwrap();
    let widget = widget(json!({"replicas": 2, "size": 1, "note": null}), &Value::Null);
    while cluster.create(&widget.to_string()).await.is_err() {
        tokio::task::yield_now().await;
    }
    cluster
}

fn widget(spec: Value, status: &Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"},
        "spec": spec, "status": status,
    })
}

/// The outcome of a patch of the Scale: its replicas, or code and text of the error.
async fn patch(patch_type: PatchType, patch: Value, validation: FieldValidation) -> String {
    let cluster = start().await;
    let mut target = object(WIDGETS, "default/w");
    target.subresource = Some("scale".into());
    let options = WriteOptions {
        field_validation: validation,
        ..WriteOptions::default()
    };
    let verb = Verb::Patch(patch_type, Payload::json(patch.to_string()), options);
    match cluster.call(target, verb).await {
        Ok(response) => format!("{:?}", response.warnings),
        Err(Status { code, message, .. }) => format!("{code} {message}"),
    }
}

#[track_caller]
fn check(outcome: &str, expected: &str) {
    assert!(outcome.ends_with(expected), "{outcome}");
}

/// CR5
#[tokio::test]
async fn a_patch_of_a_scale_is_rejected_in_the_words_of_a_patch() {
    use FieldValidation::{Ignore, Strict, Warn};
    let merge = PatchType::Merge;
    let unsupported = "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let outcome = patch(PatchType::StrategicMerge, json!({}), Ignore).await;
    check(&outcome, unsupported);
    let outcome = patch(merge, json!({"spec": {"replicas": "x"}}), Ignore).await;
    assert!(
        outcome.starts_with(
            "422  \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"autoscaling/v1\\\""
        ),
        "{outcome}"
    );
    check(
        &outcome,
        "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32",
    );
    let unknown = json!({"spec": {"replicas": 3, "x": 1}});
    check(
        &patch(merge, unknown.clone(), Strict).await,
        "strict decoding error: unknown field \"spec.x\"",
    );
    check(
        &patch(merge, unknown, Warn).await,
        r#"["unknown field \"spec.x\""]"#,
    );
    let remove = json!([{"op": "remove", "path": "/metadata/name"}]);
    check(
        &patch(PatchType::Json, remove, Ignore).await,
        "400 the name of the object (w based on URL) was undeterminable: name must be provided",
    );
    let other = json!({"metadata": {"namespace": "other"}});
    check(
        &patch(merge, other, Ignore).await,
        "400 the namespace of the provided object does not match the namespace sent on the request",
    );
}

#[tokio::test]
async fn a_patched_scale_is_shown_without_the_status_that_the_object_lacks() {
    let outcome = patch(PatchType::Merge, json!({"spec": 1}), FieldValidation::Ignore).await;
    assert!(
        outcome.contains(r#"\"spec\":1,\"status\":{\"replicas\":0}}"#),
        "{outcome}"
    );
}

#[tokio::test]
async fn a_scale_that_cannot_be_decoded_is_rejected_as_upstream_does() {
    let cluster = start().await;
    let mut target = object(WIDGETS, "default/w");
    target.subresource = Some("scale".into());
    let update = |spec: Value| {
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {"name": "w", "namespace": "default"}, "spec": spec});
        let verb = Verb::Update(Payload::json(scale.to_string()), WriteOptions::default());
        cluster.call(target.clone(), verb)
    };
    let status = update(json!({"replicas": "x"})).await.unwrap_err();
    let expected = "no kind is registered for the type v1.Scale in scheme \
        \"k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go:781\"";
    assert_eq!((status.code, status.message.as_str()), (400, expected));
    assert!(update(json!({"replicas": 3})).await.is_ok());
}

#[tokio::test]
async fn the_uid_of_a_scale_is_a_precondition_of_its_update() {
    let cluster = start().await;
    let mut target = object(WIDGETS, "default/w");
    target.subresource = Some("scale".into());
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "w", "namespace": "default", "uid": "u"}, "spec": {"replicas": 3}});
    let verb = Verb::Update(Payload::json(scale.to_string()), WriteOptions::default());
    let status = cluster.call(target.clone(), verb).await.unwrap_err();
    assert_eq!(status.code, 409);
    assert!(
        status
            .message
            .contains("Precondition failed: UID in precondition: u"),
        "{}",
        status.message
    );
    let patch = Payload::json(json!({"metadata": {"uid": "u"}}).to_string());
    let verb = Verb::Patch(PatchType::Merge, patch, WriteOptions::default());
    assert!(cluster.call(target, verb).await.is_ok());
}

/// The managers of a custom object, after a create or an update whose managed fields are of this version.
async fn managers(version: &str, is_update: bool) -> Vec<String> {
    let cluster = start().await;
    let mut object = widget(json!({"replicas": 2, "size": 1, "note": null}), &Value::Null);
    object["metadata"]["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": version,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:size": {}}}, "time": "2020-01-01T00:00:00Z"}]);
    let written = match is_update {
        true => {
            let stored = value(&cluster.get(WIDGETS, "default/w").await.unwrap());
            object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            value(&cluster.update(&object, "").await.unwrap())
        }
        false => {
            object["metadata"]["name"] = json!("new");
            value(&cluster.create(&object.to_string()).await.unwrap())
        }
    };
    let managers = written["metadata"]["managedFields"].as_array().cloned();
    let names = managers.unwrap_or_default();
    names
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn managers_in_a_version_that_the_kind_lacks_are_those_of_the_live_object() {
    assert_eq!(managers("example.com/v1", true).await, ["m"]);
    assert_eq!(managers("v1", true).await, ["unknown"]);
    assert_eq!(managers("example.com/v1", false).await, ["unknown"]);
    assert_eq!(managers("v1", false).await, [""; 0]);
}

/// The generation after an update, and whether `size` is still owned.
async fn update(spec: Value, status: Value) -> (i64, bool) {
    let cluster = start().await;
    let stored = value(&cluster.get(WIDGETS, "default/w").await.unwrap());
    let mut changed = widget(spec, &status);
    changed["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
    let updated = value(&cluster.update(&changed, "").await.unwrap());
    let owned = &updated["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:size"];
    let generation = updated["metadata"]["generation"].as_i64().unwrap();
    (generation, !owned.is_null())
}

#[tokio::test]
async fn a_null_differs_from_an_absent_field_in_the_generation() {
    let same = json!({"replicas": 2, "size": 1, "note": null});
    assert_eq!(update(same, Value::Null).await, (1, true));
    let absent = json!({"replicas": 2, "size": 1});
    assert_eq!(update(absent, Value::Null).await, (2, true));
}

#[tokio::test]
async fn a_status_of_a_wrong_type_leaves_managed_fields_as_they_are() {
    let without_size = || json!({"replicas": 2, "note": null});
    assert_eq!(update(without_size(), json!({"replicas": 1})).await, (2, false));
    assert_eq!(update(without_size(), json!({"replicas": "x"})).await, (2, true));
}
