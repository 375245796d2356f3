//! Monitors node heartbeats, and turns node conditions into taints.
//!
//! A node is healthy while its lease or its status is renewed. After the grace period its conditions become Unknown,
//! its pods become unready, and its taints evict them in time (see [`crate::taint_eviction`]). [`mod@plan`] decides;
//! the time of the last heartbeat is kept here, by this process's clock, so that the clocks of nodes do not matter.

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
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Recorder, TypedObject,
};
use tokio_util::sync::CancellationToken;

use crate::node_lifecycle::plan::{
    GRACE_SECONDS, NodeView, STARTUP_GRACE_SECONDS, taints, unknown_conditions,
};
use crate::pods::{self, BY_NODE};
use crate::{Config, api_time};

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
        clock: context.clock.clone(),
        events: context.events.for_component("node-controller"),
        health_by_node: Mutex::default(),
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
    clock: Arc<dyn Clock>,
    events: Recorder,
    /// The last heartbeat of each node: what it was, and when it was observed.
    health_by_node: Mutex<HashMap<Key, NodeHealth>>,
}

/// The last heartbeat of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeHealth {
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    observed_at: Timestamp,
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
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key) else {
            self.health_by_node.lock().remove(key);
            return Ok(Next::Done);
        };
        let mut view = node.view::<NodeView>()?.as_ref().clone();
        let left = self.time_left(&node, &view);
        if left.is_none()
            && let Some(conditions) = unknown_conditions(self.clock.now(), &view)
        {
            self.report(client, &node, &conditions).await?;
            view.status.conditions = conditions;
        }
        if matches!(view.status_of("Ready"), Some("False" | "Unknown")) {
            self.unready_pods(client, key.name()).await?;
        }
        if taints(self.clock.now(), &view) != view.spec.taints {
            self.taint(client, &node).await?;
        }
        // A node that reports again updates its status, which enqueues it.
        let grace = Duration::from_secs(GRACE_SECONDS.unsigned_abs());
        Ok(Next::After(left.unwrap_or(grace)))
    }
}

impl Lifecycle {
    /// How long until the grace period ends; `None` if it has.
    fn time_left(&self, node: &TypedObject<Node>, view: &NodeView) -> Option<Duration> {
        let now = self.clock.now();
        let lease = self.leases.find(&Key::new(LEASES, node.key().name()));
        let renewed = lease.and_then(|lease| lease.view::<LeaseView>().ok()?.spec.renew_time);
        let heartbeat = view.heartbeat();
        let mut health_by_node = self.health_by_node.lock();
        let last = health_by_node.get(node.key()).copied();
        let health = match last {
            Some(last) if last.renewed == renewed && last.heartbeat == heartbeat => last,
            // The node's own timestamp is more precise if it lies between the last observation and now.
            _ => {
                let written = renewed.max(heartbeat).filter(|time| *time <= now);
                let written = written.filter(|time| last.is_some_and(|last| *time > last.observed_at));
                NodeHealth {
                    renewed,
                    heartbeat,
                    observed_at: written.unwrap_or(now),
                }
            }
        };
        health_by_node.insert(node.key().clone(), health);
        let has_reported = renewed.is_some() || heartbeat.is_some();
        let grace = if has_reported {
            GRACE_SECONDS
        } else {
            STARTUP_GRACE_SECONDS
        };
        api_time::duration_until(now, api_time::add_seconds(health.observed_at, grace))
    }

    async fn report(
        &self,
        client: &Client,
        node: &TypedObject<Node>,
        conditions: &[NodeCondition],
    ) -> Result<(), Error> {
        let name = node.key().name();
        let mut updated = node.to_owned()?;
        updated.status.get_or_insert_default().conditions = Some(conditions.to_vec());
        client.all::<Node>().update_status(&updated).await?;
        self.events.normal(
            node,
            "NodeNotReady",
            format!("Node {name} status is now: NodeNotReady"),
        );
        Ok(())
    }

    /// Marks the pods of an unhealthy node as not ready.
    async fn unready_pods(&self, client: &Client, node: &str) -> Result<(), Error> {
        for pod in self.pods.indexed(BY_NODE, node) {
            let view = pods::Pod::read(pod.stored().clone());
            if !view.view().is_ready() || view.is_finished() {
                continue;
            }
            let condition = json!({
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": api_time::from_timestamp(self.clock.now()),
            });
            let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
            let handle = client.namespaced::<Pod>(pod.key().namespace());
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

    /// Sets the node's taints, on its newest version, since another client may have tainted it meanwhile.
    async fn taint(&self, client: &Client, node: &TypedObject<Node>) -> Result<(), Error> {
        let newest = client.all::<Node>().get(node.key().name()).await?;
        let view = newest.view::<NodeView>()?;
        let taints = taints(self.clock.now(), &view);
        if taints == view.spec.taints {
            return Ok(());
        }
        let mut updated = newest.to_owned()?;
        updated.spec.get_or_insert_default().taints = (!taints.is_empty()).then_some(taints);
        client.all::<Node>().update(&updated).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodCondition;
    use setpoint_testkit::{Cluster, Component, pod};

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
    async fn a_silent_node_becomes_unknown_and_recovers() {
        let (cluster, mut components) = Cluster::with([
            Component::Controller("node-lifecycle"),
            Component::Scheduler,
            Component::nodes(1),
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
        components.pop().unwrap().kill().await;
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
        components.push(cluster.run(Component::nodes(1)));
        cluster
            .until("life", |cluster| {
                ready(cluster).as_deref() == Some("True") && taint_keys(cluster).is_empty()
            })
            .await;
    }
    /// Admission taints a new node, whatever it reports.
    #[tokio::test]
    async fn a_node_that_is_ready_when_it_joins_gets_pods() {
        let components = ["node-lifecycle", "serviceaccount"].map(Component::Controller);
        let components = components
            .into_iter()
            .chain([Component::Scheduler, Component::nodes(1)]);
        let (cluster, _components) = Cluster::with_default_admission(components).await;
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
