//! Server-side apply: managed fields through the scale subresource, duplicate keys.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use bytes::Bytes;
use cluster::{Cluster, object, replica_set, value};
use serde_json::Value;
use setpoint_api::call::Encoding;
use setpoint_api::options::{FieldValidation, PatchType, WriteOptions};
use setpoint_api::{Payload, Response, Status, Target, Verb};

async fn apply(cluster: &Cluster, target: Target, text: &str, by: &str) -> Result<Response, Status> {
    let options = WriteOptions {
        field_manager: Some(by.to_owned()),
        ..WriteOptions::default()
    };
    apply_with(cluster, target, text, options).await
}

async fn apply_with(
    cluster: &Cluster,
    target: Target,
    text: &str,
    options: WriteOptions,
) -> Result<Response, Status> {
    let payload = Payload {
        encoding: Encoding::Yaml,
        bytes: Bytes::copy_from_slice(text.as_bytes()),
    };
    cluster
        .call(target, Verb::Patch(PatchType::Apply, payload, options))
        .await
}

fn scale_of(key: &str) -> Target {
    let mut target = object("replicasets.apps", key);
    target.subresource = Some("scale".into());
    target
}

/// The managers of the replicas, each with operation, version and subresource.
fn owners(set: &Value) -> Vec<String> {
    let entries = set["metadata"]["managedFields"].as_array().unwrap().iter();
    let owns = |entry: &&Value| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    entries
        .filter(owns)
        .map(|entry| {
            let fields = ["manager", "operation", "apiVersion", "subresource", "time"];
            fields.map(|field| text(&entry[field])).join(" ")
        })
        .collect()
}

#[tokio::test]
async fn a_scale_is_applied_in_the_name_of_its_object() {
    let cluster = Cluster::start().await;
    cluster.create(&replica_set("web")).await.unwrap();
    let scale = "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 7}}";
    let rejected = apply(&cluster, scale_of("default/web"), scale, "scaler").await;
    let rejected = rejected.unwrap_err();
    assert!(
        rejected.message.ends_with("using autoscaling/v1: .spec.replicas"),
        "{}",
        rejected.message
    );
    let forced = WriteOptions {
        field_manager: Some("scaler".to_owned()),
        force: true,
        ..WriteOptions::default()
    };
    apply_with(&cluster, scale_of("default/web"), scale, forced)
        .await
        .unwrap();
    let set = value(&cluster.get("replicasets.apps", "default/web").await.unwrap());
    assert_eq!(set["spec"]["replicas"], 7);
    assert_eq!(owners(&set), ["scaler Apply apps/v1 scale -"]);
}

#[tokio::test]
async fn a_duplicate_key_is_a_warning_or_rejected() {
    let cluster = Cluster::start().await;
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    let with = |field_validation| WriteOptions {
        field_manager: Some("m".to_owned()),
        field_validation,
        ..WriteOptions::default()
    };
    let target = || object("configmaps", "default/m");
    let rejected = apply_with(&cluster, target(), text, with(FieldValidation::Strict)).await;
    assert_eq!(
        rejected.unwrap_err().message,
        "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"a\" already set in map"
    );
    let warned = apply_with(&cluster, target(), text, with(FieldValidation::Warn)).await;
    assert_eq!(warned.unwrap().warnings, ["line 7: key \"a\" already set in map"]);
    let ignored = apply_with(&cluster, target(), text, with(FieldValidation::Ignore)).await;
    assert_eq!(ignored.unwrap().warnings, [""; 0]);
}

#[tokio::test]
async fn an_applied_object_must_have_the_kind_of_the_url() {
    let cluster = Cluster::start().await;
    let rejected = apply(
        &cluster,
        object("replicasets.apps", "default/web"),
        "{apiVersion: apps/v2, kind: ReplicaSet, metadata: {name: web}}",
        "m",
    );
    assert_eq!(
        rejected.await.unwrap_err().message,
        "invalid object type: apps/v2, Kind=ReplicaSet"
    );
}
