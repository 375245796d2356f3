//! The controller against a real registry.

use serde_json::{Value, json};
use setpoint_api::Gvr;
use setpoint_runtime::Patch;
use setpoint_testkit::{Cluster, Component};

use super::*;

async fn create(cluster: &Cluster, resource: Gvr, body: &Value) {
    let handle = cluster.client("test").dynamic(resource, "default");
    handle.create(body.to_string()).await.unwrap();
}

fn template() -> Value {
    json!({
        "metadata": {"name": "gpus", "namespace": "default"},
        "spec": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
        },
    })
}

fn pod(name: &str, claim: &Value) -> Value {
    let mut claim = claim.clone();
    claim["name"] = json!("gpu");
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "a", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [claim],
        },
    })
}

async fn finish(cluster: &Cluster, name: &str) {
    let handle = cluster.client("test").dynamic(v1::Pod::resource(), "default");
    let patch = Patch::merge(&json!({"status": {"phase": "Succeeded"}})).unwrap();
    handle.patch_subresource(name, "status", &patch).await.unwrap();
}

#[tokio::test]
async fn a_claim_is_generated_once_and_deleted_when_the_pod_is_done() {
    let (cluster, _components) = Cluster::with([Component::Controller("resourceclaim")]).await;
    let claim_source = json!({"resourceClaimTemplateName": "gpus"});
    create(&cluster, v1::Pod::resource(), &pod("web", &claim_source)).await;
    cluster.settle().await;
    assert_eq!(cluster.list::<ResourceClaim>().len(), 0);
    create(&cluster, ResourceClaimTemplate::resource(), &template()).await;
    let noted = |cluster: &Cluster| -> Option<String> {
        let pod: v1::Pod = cluster.find("web")?;
        let generated = pod.status?.resource_claim_statuses?.pop()?;
        generated.resource_claim_name
    };
    cluster.until("a claim", |cluster| noted(cluster).is_some()).await;
    cluster.settle().await;
    let claims = cluster.list::<ResourceClaim>();
    let claim = &claims[0].metadata;
    assert_eq!((claims.len(), &claim.name), (1, &noted(&cluster)));
    assert!(
        claim
            .name
            .as_deref()
            .is_some_and(|name| name.starts_with("web-gpu-"))
    );
    assert_eq!(claim.labels.as_ref().unwrap()["team"], "a");
    assert_eq!(claim.annotations.as_ref().unwrap()[plan::POD_CLAIM], "gpu");
    assert_eq!(claim.owner_references.as_ref().unwrap()[0].name, "web");
    finish(&cluster, "web").await;
    cluster
        .until("no claim", |cluster| cluster.list::<ResourceClaim>().is_empty())
        .await;
}

#[tokio::test]
async fn an_allocated_claim_lists_its_pods_and_is_deallocated_after_the_last() {
    let (cluster, _components) = Cluster::with([Component::Controller("resourceclaim")]).await;
    let claim = json!({
        "metadata": {"name": "shared", "namespace": "default", "finalizers": [plan::FINALIZER]},
        "spec": template()["spec"]["spec"],
    });
    create(&cluster, ResourceClaim::resource(), &claim).await;
    let handle = cluster
        .client("test")
        .dynamic(ResourceClaim::resource(), "default");
    let allocation = json!({"devices": {"results": [
        {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}]}});
    let patch = Patch::merge(&json!({"status": {"allocation": allocation}})).unwrap();
    handle
        .patch_subresource("shared", "status", &patch)
        .await
        .unwrap();
    let claim_source = json!({"resourceClaimName": "shared"});
    create(&cluster, v1::Pod::resource(), &pod("one", &claim_source)).await;
    create(&cluster, v1::Pod::resource(), &pod("two", &claim_source)).await;
    cluster.settle().await;
    let state = |cluster: &Cluster| {
        let claim: ResourceClaim = cluster.find("shared").expect("it has no owner and stays");
        let status = claim.status.unwrap_or_default();
        let consumers = status.reserved_for.unwrap_or_default().len();
        (
            consumers,
            status.allocation.is_some(),
            claim.metadata.finalizers.is_some(),
        )
    };
    cluster
        .until("two users", |cluster| state(cluster) == (2, true, true))
        .await;
    finish(&cluster, "one").await;
    cluster
        .until("one user", |cluster| state(cluster) == (1, true, true))
        .await;
    finish(&cluster, "two").await;
    cluster
        .until("none", |cluster| state(cluster) == (0, false, false))
        .await;
}
