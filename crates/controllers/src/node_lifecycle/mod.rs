//! Notices when nodes fall silent, and turns the conditions of nodes into taints.
//!
//! A node is alive while its lease or its status moves. When neither has for a while, nobody knows how it is: its
//! conditions say so, its pods are no longer ready, and its taints drive them out in time (see
//! [`crate::taint_eviction`]). [`mod@plan`] decides; the time of the last sign of life is kept here, by this process's clock,
//! so that the clocks of nodes do not matter.

mod plan;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Clock, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Recorder, Typed,
};
use tokio_util::sync::CancellationToken;

use crate::node_lifecycle::plan::{GRACE_SECONDS, NodeView, STARTUP_GRACE_SECONDS, silenced, taints};
use crate::pods::{self, BY_NODE};
use crate::{Config, moments};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "node-lifecycle-controller";

const LEASES: &str = "kube-node-lease";

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let pods: Lister<Pod> = context.lister()?;
    pods::index_by_node(&pods);
    let reconciler = Lifecycle {
        nodes: context.lister()?,
        leases: context.lister()?,
        pods,
        client: context.client.clone(),
        clock: context.clock.clone(),
        events: context.events.of("node-controller"),
        signs: Mutex::default(),
    };
    Controller::new(NAME, reconciler)
        .reconciles::<Node>()
        .reads(Lease::resource().group_resource())
        .reads(Pod::resource().group_resource())
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Lifecycle {
    nodes: Lister<Node>,
    leases: Lister<Lease>,
    pods: Lister<Pod>,
    client: Client,
    clock: Arc<dyn Clock>,
    events: Recorder,
    /// The last sign of life of each node: what it was, and when it was noticed.
    signs: Mutex<HashMap<Key, Sign>>,
}

/// A sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sign {
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    noticed: Timestamp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LeaseView {
    spec: LeaseSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpec {
    renew_time: Option<Timestamp>,
}

impl Reconcile for Lifecycle {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key) else {
            self.signs.lock().remove(key);
            return Ok(Next::Done);
        };
        let mut view = node.view::<NodeView>()?.as_ref().clone();
        let left = self.time_left(&node, &view);
        if left.is_none()
            && let Some(conditions) = silenced(self.clock.now(), &view)
        {
            self.report(&node, &conditions).await?;
            view.status.conditions = conditions;
        }
        if matches!(view.status_of("Ready"), Some("False" | "Unknown")) {
            self.unready_pods(key.name()).await?;
        }
        if taints(self.clock.now(), &view) != view.spec.taints {
            self.taint(&node).await?;
        }
        // A silent node that speaks again writes to its status, which wakes it here.
        let grace = Duration::from_secs(GRACE_SECONDS.unsigned_abs());
        Ok(Next::After(left.unwrap_or(grace)))
    }
}

impl Lifecycle {
    /// How long the node may stay silent; nothing if it has been for too long.
    fn time_left(&self, node: &Typed<Node>, view: &NodeView) -> Option<Duration> {
        let now = self.clock.now();
        let lease = self.leases.find(&Key::new(LEASES, node.key().name()));
        let renewed = lease.and_then(|lease| lease.view::<LeaseView>().ok()?.spec.renew_time);
        let heartbeat = view.heartbeat();
        let mut signs = self.signs.lock();
        let last = signs.get(node.key()).copied();
        let sign = match last {
            Some(last) if last.renewed == renewed && last.heartbeat == heartbeat => last,
            // What the node wrote down is the better time if it lies between what was known and now.
            _ => {
                let written = renewed.max(heartbeat).filter(|time| *time <= now);
                let written = written.filter(|time| last.is_some_and(|last| *time > last.noticed));
                Sign {
                    renewed,
                    heartbeat,
                    noticed: written.unwrap_or(now),
                }
            }
        };
        signs.insert(node.key().clone(), sign);
        let has_spoken = renewed.is_some() || heartbeat.is_some();
        let grace = if has_spoken {
            GRACE_SECONDS
        } else {
            STARTUP_GRACE_SECONDS
        };
        moments::until(now, moments::later(sign.noticed, grace))
    }

    async fn report(&self, node: &Typed<Node>, conditions: &[NodeCondition]) -> Result<(), Error> {
        let name = node.key().name();
        let mut updated = node.to_owned()?;
        updated.status.get_or_insert_default().conditions = Some(conditions.to_vec());
        self.client.all::<Node>().update_status(&updated).await?;
        self.events.normal(
            node,
            "NodeNotReady",
            format!("Node {name} status is now: NodeNotReady"),
        );
        Ok(())
    }

    /// Pods of a node of which nothing good is known are not ready.
    async fn unready_pods(&self, node: &str) -> Result<(), Error> {
        for pod in self.pods.indexed(BY_NODE, node) {
            let view = pods::Pod::read(pod.stored().clone());
            if view.view().ready_since.is_none() || view.is_finished() {
                continue;
            }
            let condition = json!({
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": moments::written(self.clock.now()),
            });
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
            let handle = self.client.namespaced::<Pod>(pod.key().namespace());
            match handle
                .patch_status(pod.key().name(), &Patch::strategic(&patch)?)
                .await
            {
                Err(status) if status.is_not_found() || status.is_conflict() => continue,
                patched => drop(patched?),
            }
            self.events.warning(&pod, "NodeNotReady", "Node is not ready");
        }
        Ok(())
    }

    /// Gives the node the taints that it should have. It is read anew: somebody else may have tainted it meanwhile.
    async fn taint(&self, node: &Typed<Node>) -> Result<(), Error> {
        let newest = self.client.all::<Node>().get(node.key().name()).await?;
        let view = newest.view::<NodeView>()?;
        let taints = taints(self.clock.now(), &view);
        if taints == view.spec.taints {
            return Ok(());
        }
        let mut updated = newest.to_owned()?;
        updated.spec.get_or_insert_default().taints = (!taints.is_empty()).then_some(taints);
        self.client.all::<Node>().update(&updated).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodCondition;
    use setpoint_testkit::{Cluster, Part, pod};

    use super::*;

    fn ready(cluster: &Cluster) -> Option<String> {
        let node: Node = cluster.find("node-0")?;
        let conditions = node.status?.conditions?;
        conditions
            .into_iter()
            .find(|own| own.type_ == "Ready")
            .map(|own| own.status)
    }

    fn taint_keys(cluster: &Cluster) -> Vec<String> {
        let node: Option<Node> = cluster.find("node-0");
        let taints = node.and_then(|node| node.spec?.taints).unwrap_or_default();
        taints
            .into_iter()
            .map(|taint| format!("{}:{}", taint.key, taint.effect))
            .collect()
    }

    #[tokio::test]
    async fn a_node_that_falls_silent_is_noticed_and_comes_back() {
        let (cluster, mut parts) = Cluster::with([
            Part::Controller("node-lifecycle"),
            Part::Scheduler,
            Part::nodes(1),
        ])
        .await;
        cluster
            .client("test")
            .namespaced("default")
            .create(&pod("one").build())
            .await
            .unwrap();
        let is_ready = |cluster: &Cluster| {
            let pod: Option<Pod> = cluster.find("one");
            let conditions = pod.and_then(|pod| pod.status?.conditions).unwrap_or_default();
            let is_it = |own: &PodCondition| own.type_ == "Ready" && own.status == "True";
            conditions.iter().any(is_it)
        };
        cluster.until("a ready pod", is_ready).await;
        cluster.advance(Duration::from_secs(200)).await;
        assert_eq!(
            (ready(&cluster).as_deref(), taint_keys(&cluster).len()),
            (Some("True"), 0)
        );
        parts.pop().unwrap().kill().await;
        let start = cluster.clock.now();
        cluster
            .until("silence", |cluster| ready(cluster).as_deref() == Some("Unknown"))
            .await;
        let waited = cluster.clock.now().duration_since(start).as_secs();
        assert!(
            (30..=110).contains(&waited),
            "it was noticed after {waited} seconds"
        );
        cluster
            .until("taints and an unready pod", |cluster| {
                taint_keys(cluster).len() == 2 && !is_ready(cluster)
            })
            .await;
        parts.push(cluster.run(Part::nodes(1)));
        cluster
            .until("life", |cluster| {
                ready(cluster).as_deref() == Some("True") && taint_keys(cluster).is_empty()
            })
            .await;
    }
    /// A new node is tainted as it comes, whatever it says.
    #[tokio::test]
    async fn a_node_that_is_ready_as_it_comes_gets_pods() {
        let parts = ["node-lifecycle", "serviceaccount"].map(Part::Controller);
        let parts = parts.into_iter().chain([Part::Scheduler, Part::nodes(1)]);
        let (cluster, _parts) = Cluster::strict(parts).await;
        cluster
            .until("a node without taints", |cluster| {
                ready(cluster).as_deref() == Some("True") && taint_keys(cluster).is_empty()
            })
            .await;
        cluster.settle().await;
        let pods = cluster.client("test").namespaced("default");
        pods.create(&pod("one").build()).await.unwrap();
        let is_bound = |cluster: &Cluster| {
            let pod: Option<Pod> = cluster.find("one");
            pod.and_then(|pod| pod.spec?.node_name).is_some()
        };
        cluster.until("a bound pod", is_bound).await;
    }
}
