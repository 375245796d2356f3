//! The controller against a real registry. Devices are allocated by the test.

use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_testkit::{Cluster, Component, RunningComponent};

use super::*;

const POD: &str = "trainer";

async fn put(cluster: &Cluster, resource: Gvr, namespace: &str, body: Value) -> Arc<Stored> {
    let handle = cluster.client("test").dynamic(resource, namespace);
    handle.create(body.to_string()).await.unwrap()
}

fn slice(taints: Value) -> Value {
    json!({
        "metadata": {"name": "n1-gpus"},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0", "taints": taints}],
        },
    })
}

/// A cluster in which a pod uses a device of node `n1` and tolerates NoExecute for so many seconds, if at all.
async fn cluster(toleration_seconds: Option<i64>) -> (Cluster, Vec<RunningComponent>) {
    let (cluster, components) = Cluster::with([Component::Controller("device-taint-eviction")]).await;
    put(&cluster, ResourceSlice::resource(), "", slice(json!([]))).await;
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}});
    put(&cluster, ResourceClaim::resource(), "default", claim).await;
    let pod = json!({
        "metadata": {"name": POD},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "example.com/app"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        },
    });
    let pod = put(&cluster, v1::Pod::resource(), "default", pod).await;
    let tolerations: Vec<Value> = toleration_seconds
        .map(|seconds| json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}))
        .into_iter()
        .collect();
    let device = json!({
        "request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "tolerations": tolerations,
    });
    let status = json!({
        "allocation": {"devices": {"results": [device]}},
        "reservedFor": [{"resource": "pods", "name": POD, "uid": pod.uid()}],
    });
    let claims = cluster
        .client("test")
        .dynamic(ResourceClaim::resource(), "default");
    let patch = Patch::merge(&json!({"status": status})).unwrap();
    claims.patch_subresource("gpu", "status", &patch).await.unwrap();
    cluster.wait_until_quiet().await.unwrap();
    assert!(!is_terminating(&cluster));
    (cluster, components)
}

async fn rule(cluster: &Cluster, effect: &str) {
    let spec = json!({
        "deviceSelector": {"driver": "gpu.example.com"},
        "taint": {"key": "broken", "value": "yes", "effect": effect},
    });
    let body = json!({"metadata": {"name": "broken"}, "spec": spec});
    put(cluster, DeviceTaintRule::resource(), "", body).await;
}

/// Whether the pod is terminating or gone.
fn is_terminating(cluster: &Cluster) -> bool {
    let pod: Option<v1::Pod> = cluster.find(POD);
    pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
}

fn progress(cluster: &Cluster) -> Option<(String, String)> {
    let rules: Vec<DeviceTaintRule> = cluster.list();
    let condition = rules.into_iter().next()?.status?.conditions?.into_iter().next()?;
    Some((condition.reason, condition.message))
}

fn event_messages(cluster: &Cluster) -> Vec<String> {
    let events: Vec<Event> = cluster.list();
    let of_us = |event: &Event| event.reason.as_deref() == Some("DeviceTaintManagerEviction");
    events
        .into_iter()
        .filter(of_us)
        .filter_map(|event| event.message)
        .collect()
}

#[tokio::test]
async fn a_published_taint_evicts_the_pods_using_the_device() {
    let (cluster, _components) = cluster(None).await;
    let slices = cluster.client("test").dynamic(ResourceSlice::resource(), "");
    let mut tainted: Value = slices.get("n1-gpus").await.unwrap().decode().unwrap();
    tainted["spec"]["devices"][0]["taints"] = json!([{"key": "broken", "effect": "NoExecute"}]);
    slices.update("n1-gpus", tainted.to_string()).await.unwrap();
    cluster.until("a terminating pod", is_terminating).await;
    cluster.wait_until_quiet().await.unwrap();
    assert_eq!(event_messages(&cluster), ["Marking for deletion"]);
}

#[tokio::test]
async fn a_rule_evicts_when_the_toleration_expires_and_reports_its_progress() {
    let (cluster, _components) = cluster(Some(60)).await;
    rule(&cluster, "NoExecute").await;
    cluster
        .until("a rule that waits", |cluster| {
            let waits = ("PodsPendingEviction", "1 pod needs to be evicted in 1 namespace.");
            progress(cluster).is_some_and(|(reason, message)| (reason.as_str(), message.as_str()) == waits)
        })
        .await;
    let start = cluster.clock.now();
    cluster.until("a terminating pod", is_terminating).await;
    let waited = cluster.clock.now().duration_since(start).as_secs();
    assert!((50..=61).contains(&waited), "it went after {waited} seconds");
    cluster
        .until("a rule that is done", |cluster| {
            let done = ("Completed", "1 pod evicted since starting the controller.");
            progress(cluster).is_some_and(|(reason, message)| (reason.as_str(), message.as_str()) == done)
        })
        .await;
}

#[tokio::test]
async fn a_pod_stays_when_the_rule_is_deleted_in_time() {
    let (cluster, _components) = cluster(Some(600)).await;
    rule(&cluster, "NoExecute").await;
    cluster
        .until("a rule that waits", |cluster| progress(cluster).is_some())
        .await;
    cluster.wait_until_quiet().await.unwrap();
    let rules = cluster.client("test").all::<DeviceTaintRule>();
    rules.delete("broken", Default::default()).await.unwrap();
    cluster
        .until("an event", |cluster| !event_messages(cluster).is_empty())
        .await;
    cluster.advance(Duration::from_secs(700)).await;
    assert!(!is_terminating(&cluster));
    assert_eq!(event_messages(&cluster), ["Cancelling deletion"]);
}

#[tokio::test]
async fn a_rule_without_effect_reports_once_what_it_would_do() {
    let (cluster, _components) = cluster(None).await;
    rule(&cluster, "None").await;
    cluster
        .until("an event", |cluster| progress(cluster).is_some())
        .await;
    let (reason, message) = progress(&cluster).unwrap();
    assert_eq!(reason, "NoEffect");
    let expected =
        "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if";
    assert!(message.starts_with(expected), "{message}");
    cluster.advance(Duration::from_secs(60)).await;
    assert!(!is_terminating(&cluster));
}
