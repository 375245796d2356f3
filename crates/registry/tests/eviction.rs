//! Evictions, and bindings by the `bindings` resource.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use serde_json::json;

use cluster::{Cluster, object, parse, payload, pod, resource_of, value};
use setpoint_api::options::WriteOptions;
use setpoint_api::{Response, Status, Target, Verb};

/// A running pod called `a` with a budget that allows so many disruptions.
async fn guarded(allowed: i64) -> Cluster {
    let cluster = Cluster::start().await;
    let mut own = parse(&pod("a"));
    own["metadata"]["labels"] = json!({"app": "x"});
    let made = cluster.create(&own.to_string()).await.unwrap();
    let mut running = value(&made);
    running["status"]["phase"] = json!("Running");
    running["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    cluster.update(&running, "status").await.unwrap();
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    let made = cluster.create(&budget.to_string()).await.unwrap();
    let mut budget = value(&made);
    budget["status"] = json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1,
    });
    cluster.update(&budget, "status").await.unwrap();
    cluster
}

async fn evict(cluster: &Cluster) -> Result<Response, Status> {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    let target = object("pods", "default/a").subresource("eviction");
    let verb = Verb::Create(payload(&eviction), WriteOptions::default());
    cluster.call(target, verb).await
}

#[tokio::test]
async fn a_pod_is_evicted_as_long_as_its_budget_allows_it() {
    let cluster = guarded(1).await;
    assert!(evict(&cluster).await.unwrap().created);
    assert!(cluster.get("pods", "default/a").await.unwrap_err().is_not_found());
    let budget = cluster
        .get("poddisruptionbudgets.policy", "default/b")
        .await
        .unwrap();
    let budget = value(&budget);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["a"].is_string());
}

#[tokio::test]
async fn a_pod_stays_once_its_budget_is_used_up() {
    let cluster = guarded(0).await;
    let status = evict(&cluster).await.unwrap_err();
    assert_eq!(status.code, 429);
    assert_eq!(
        status.message,
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert!(cluster.get("pods", "default/a").await.is_ok());
}

#[tokio::test]
async fn a_pod_may_be_bound_by_the_bindings_resource() {
    let cluster = Cluster::start().await;
    cluster.create(&pod("a")).await.unwrap();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n1"},
    });
    let target = Target::in_namespace(resource_of("bindings"), "default");
    let verb = Verb::Create(payload(&binding), WriteOptions::default());
    assert!(cluster.call(target, verb).await.unwrap().created);
    let bound = value(&cluster.get("pods", "default/a").await.unwrap());
    assert_eq!(bound["spec"]["nodeName"], "n1");
}
