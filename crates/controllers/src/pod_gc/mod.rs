//! Deletes pods that no other controller will: orphaned pods of deleted nodes, terminating pods that were never bound or
//! whose node is out of service, and terminated pods beyond a threshold.
//!
//! No event reports that a node has been missing for a while, so this runs every twenty seconds; [`mod@plan`] decides.

mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, ResourceVersion, Status};
use setpoint_runtime::{Client, Context, Error, Lister, Patch, TypedObject};
use tokio_util::sync::CancellationToken;

use crate::pod_gc::plan::{DeletionCause, NodeState, plan};
use crate::pods::Pod;
use crate::{Config, api_time, periodic};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "pod-garbage-collector-controller";

/// How often it runs.
const PERIOD: Duration = Duration::from_secs(20);
/// How long a node must be missing before its pods are deleted.
const QUARANTINE_SECONDS: i64 = 40;
/// The taint with which an administrator marks a node whose pods may be deleted by force.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let collector = Collector {
        pods: context.lister()?,
        nodes: context.lister()?,
        client: context.client.clone(),
        clock: context.clock.clone(),
        threshold: config.terminated_pod_threshold,
        missing: Mutex::default(),
        seen: Mutex::default(),
    };
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = async { collector.pods.cache().synced().await; collector.nodes.cache().synced().await } => {}
    }
    periodic::every(PERIOD, &*context.clock, &stop, || collector.collect()).await;
    Ok(())
}

#[derive(Debug)]
struct Collector {
    pods: Lister<v1::Pod>,
    nodes: Lister<Node>,
    client: Client,
    clock: Arc<dyn Clock>,
    /// How many terminated pods are kept.
    threshold: usize,
    /// Since when nodes with pods have been missing.
    missing: Mutex<BTreeMap<String, Timestamp>>,
    /// The resource versions of the pod and node caches when there was last nothing to do.
    seen: Mutex<Option<(ResourceVersion, ResourceVersion)>>,
}

/// The fields of a node that decide.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeView {
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<NodeCondition>,
}

fn state_of(node: &TypedObject<Node>) -> NodeState {
    let is_out = |view: &NodeView| {
        let ready = |one: &NodeCondition| one.type_ == "Ready" && one.status == "True";
        !view.status.conditions.iter().any(ready)
            && view.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
    };
    match node.view::<NodeView>() {
        Ok(view) if is_out(&view) => NodeState::OutOfService,
        _ => NodeState::InService,
    }
}

impl Collector {
    async fn collect(&self) {
        let versions = (self.pods.cache().version(), self.nodes.cache().version());
        if *self.seen.lock() == Some(versions) {
            return;
        }
        let pods: Vec<Pod> = self
            .pods
            .list()
            .into_iter()
            .map(|pod| Pod::read(pod.into_stored()))
            .collect();
        let nodes: HashMap<String, NodeState> = self
            .nodes
            .list()
            .iter()
            .map(|node| (node.key().name().to_owned(), state_of(node)))
            .collect();
        let gone = self.gone(&nodes).await;
        let plan = plan(&pods, &nodes, &gone, self.threshold);
        self.note_missing(&plan.missing);
        let is_quiet = plan.missing.is_empty() && plan.deletions.is_empty();
        *self.seen.lock() = is_quiet.then_some(versions);
        for (pod, cause) in plan.deletions {
            if let Err(status) = self.remove(pod, cause).await {
                tracing::warn!(pod = %pod.object().key(), %status, "cannot delete the pod");
            }
        }
    }

    /// The nodes that have been missing for long enough, and that the API server does not have either.
    async fn gone(&self, nodes: &HashMap<String, NodeState>) -> BTreeSet<String> {
        let now = self.clock.now();
        let late: Vec<String> = {
            let mut missing = self.missing.lock();
            missing.retain(|name, _| !nodes.contains_key(name));
            let is_late = |since: &Timestamp| api_time::add_seconds(*since, QUARANTINE_SECONDS) <= now;
            missing
                .iter()
                .filter(|(_, since)| is_late(since))
                .map(|(name, _)| name.clone())
                .collect()
        };
        let mut gone = BTreeSet::new();
        for name in late {
            let there = self.client.all::<Node>().get(&name).await;
            if there.is_err_and(|status| status.is_not_found()) {
                gone.insert(name);
            }
        }
        gone
    }

    fn note_missing(&self, names: &BTreeSet<String>) {
        let now = self.clock.now();
        let mut missing = self.missing.lock();
        missing.retain(|name, _| names.contains(name));
        for name in names {
            missing.entry(name.clone()).or_insert(now);
        }
    }

    /// Deletes the pod at once. One that has not finished is marked as failed first.
    async fn remove(&self, pod: &Pod, cause: DeletionCause) -> Result<(), Status> {
        let key = pod.object().key();
        let handle = self.client.namespaced::<v1::Pod>(key.namespace());
        if !pod.is_finished() {
            let patch = Patch::strategic(&failed(self.clock.now(), pod, cause))?;
            handle.patch_status(key.name(), &patch).await?;
        }
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            uid: Some(pod.object().uid().to_owned()),
            ..DeleteOptions::default()
        };
        match handle.delete(key.name(), options).await {
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            deleted => deleted.map(drop),
        }
    }
}

/// The status patch that marks a pod as failed.
fn failed(now: Timestamp, pod: &Pod, cause: DeletionCause) -> serde_json::Value {
    let mut status = json!({"phase": "Failed"});
    if cause == DeletionCause::Orphaned {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": api_time::from_timestamp(now),
        });
        status["conditions"] = json!([condition]);
    }
    json!({"metadata": {"uid": pod.object().uid()}, "status": status})
}

#[cfg(test)]
mod tests {
    use setpoint_api::Key;
    use setpoint_testkit::{Cluster, Component, node, pod};

    use super::*;

    /// FL9
    #[tokio::test]
    async fn pods_of_a_deleted_node_are_deleted() {
        let (cluster, _components) = Cluster::with([Component::Controller("pod-garbage-collector")]).await;
        let client = cluster.client("test");
        client.all().create(&node("n1").build()).await.unwrap();
        let pods = client.namespaced::<v1::Pod>("default");
        for (name, node) in [("stays", "n1"), ("orphaned", "n2")] {
            pods.create(&pod(name).on(node).build()).await.unwrap();
        }
        cluster.settle().await;
        let start = cluster.clock.now();
        cluster
            .until("one pod", |cluster| {
                cluster
                    .cache::<v1::Pod>()
                    .find(&Key::new("default", "orphaned"))
                    .is_none()
            })
            .await;
        let waited = cluster.clock.now().duration_since(start).as_secs();
        assert!(waited >= QUARANTINE_SECONDS, "it went after {waited} seconds");
        assert!(cluster.find::<v1::Pod>("stays").is_some());
    }
}
