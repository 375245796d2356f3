//! Limits of large objects: what is rejected, and that what is not takes linear time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use serde_json::{Value, json};

use cluster::{Cluster, object, value};
use setpoint_api::options::{PatchType, WriteOptions};
use setpoint_api::{Payload, Response, Status, Verb};

const TOO_LARGE: &str = "etcdserver: request is too large";

/// A service account with these numbers as names of its secrets, padded to a length.
fn account(numbers: impl Iterator<Item = usize>, length: usize) -> Value {
    let secrets: Vec<Value> = numbers
        .map(|number| json!({"name": format!("{number:0length$}")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "a", "namespace": "default"}, "secrets": secrets,
    })
}

async fn patch(cluster: &Cluster, patch_type: PatchType, body: &Value) -> Result<Response, Status> {
    let options = WriteOptions {
        field_manager: Some("test".to_owned()),
        ..WriteOptions::default()
    };
    let payload = Payload::json(body.to_string());
    cluster
        .call(
            object("serviceaccounts", "default/a"),
            Verb::Patch(patch_type, payload, options),
        )
        .await
}

fn secrets(stored: &Value) -> usize {
    stored["secrets"].as_array().unwrap().len()
}

#[tokio::test]
async fn an_object_over_the_limit_of_etcd_is_rejected() {
    let cluster = Cluster::start().await;
    let large = account(0..20_000, 100);
    let status = cluster.create(&large.to_string()).await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (500, ""));
    assert_eq!(status.message, TOO_LARGE);
    cluster.create(&account(0..1, 100).to_string()).await.unwrap();
    let status = cluster.update(&large, "").await.unwrap_err();
    assert_eq!(status.message, TOO_LARGE);
    for patch_type in [PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply] {
        let status = patch(&cluster, patch_type, &large).await.unwrap_err();
        assert_eq!(status.message, TOO_LARGE, "{patch_type:?}");
    }
}

#[tokio::test]
async fn managed_fields_are_dropped_where_they_make_an_object_too_large() {
    let cluster = Cluster::start().await;
    let large = account(0..10_000, 100);
    let stored = value(&cluster.create(&large.to_string()).await.unwrap());
    assert_eq!(secrets(&stored), 10_000);
    assert_eq!(stored["metadata"].get("managedFields"), None);
    let status = patch(&cluster, PatchType::Apply, &large).await.unwrap_err();
    assert_eq!(status.message, TOO_LARGE);
}

#[tokio::test]
async fn a_dry_run_has_no_limit() {
    let cluster = Cluster::start().await;
    let options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let large = account(0..20_000, 100).to_string();
    assert!(cluster.create_with(&large, options).await.is_ok());
}

/// Comparing each item with each would take minutes.
const MANY: usize = 15_000;

#[tokio::test]
async fn long_lists_are_replaced_patched_and_applied_in_linear_time() {
    let cluster = Cluster::start().await;
    let reversed = account((0..MANY).rev(), 6);
    cluster.create(&account(0..MANY, 6).to_string()).await.unwrap();
    let stored = value(&cluster.update(&reversed, "").await.unwrap());
    assert_eq!(stored["secrets"][0]["name"], "014999");
    for patch_type in [PatchType::Merge, PatchType::StrategicMerge, PatchType::Apply] {
        patch(&cluster, patch_type, &account(0..MANY, 6)).await.unwrap();
        let stored = value(&cluster.get("serviceaccounts", "default/a").await.unwrap());
        assert_eq!(
            (secrets(&stored), &stored["secrets"][1]["name"]),
            (MANY, &"000001".into())
        );
    }
}

#[tokio::test]
async fn many_duplicate_owner_references_are_found_in_linear_time() {
    let cluster = Cluster::start().await;
    let owner = |number: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": (number / 2).to_string()});
    let mut body = account(0..1, 6);
    body["metadata"]["ownerReferences"] = (0..MANY).map(owner).collect();
    let stored = value(&cluster.create(&body.to_string()).await.unwrap());
    assert_eq!(
        stored["metadata"]["ownerReferences"].as_array().unwrap().len(),
        MANY / 2
    );
}

#[tokio::test]
async fn many_errors_are_reported_up_to_a_limit() {
    let cluster = Cluster::start().await;
    let body = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"},
        "spec": {"request": "", "signerName": "example.com/a", "usages": vec!["unknown"; 100_000]},
    });
    let status = cluster.create(&body.to_string()).await.unwrap_err();
    assert_eq!(status.code, 422);
    assert!(status.message.len() < 2 * 1024 * 1024, "{}", status.message.len());
}
