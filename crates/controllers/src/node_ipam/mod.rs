//! Allocates a pod CIDR to every node.
//!
//! The allocated CIDRs are in the nodes themselves; [`mod@plan`] finds a free one. An allocation is remembered here
//! until the node shows it, so that two workers never allocate the same.

mod plan;

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Change, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Recorder, TypedObject,
};
use setpoint_values::Cidr;
use tokio_util::sync::CancellationToken;

use crate::Config;

pub use plan::ClusterCidrs;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "node-ipam-controller";

/// Runs the controller until stopped. Without cluster CIDRs it has nothing to do.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    if config.cluster_cidrs.pools.is_empty() {
        stop.cancelled().await;
        return Ok(());
    }
    let reconciler = Allocator {
        nodes: context.lister()?,
        events: context.events.for_component("cidrAllocator"),
        pools: config.cluster_cidrs.clone(),
        pending: Mutex::default(),
    };
    let nodes = reconciler.nodes.clone();
    Controller::new(NAME, reconciler)
        .watches(Node::resource().group_resource(), move |change| {
            nodes_to_enqueue(&nodes, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Allocator {
    nodes: Lister<Node>,
    events: Recorder,
    pools: ClusterCidrs,
    /// Allocations that the cached nodes do not show yet.
    pending: Mutex<HashMap<Key, Vec<Cidr>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeView {
    spec: NodeSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
}

/// The node itself, and, when one is deleted, all nodes that have no CIDR yet.
fn nodes_to_enqueue(nodes: &Lister<Node>, change: &Change) -> Vec<Key> {
    let mut keys = vec![change.key().clone()];
    if change.is_deletion() {
        let has_none = |node: &TypedObject<Node>| {
            node.view::<NodeView>()
                .is_ok_and(|view| view.spec.ranges().next().is_none())
        };
        let waiting = nodes.list().into_iter().filter(has_none);
        keys.extend(waiting.map(|node| node.key().clone()));
    }
    keys
}

impl NodeSpec {
    fn ranges(&self) -> impl Iterator<Item = Cidr> {
        let all = self.pod_cidrs.iter().chain([&self.pod_cidr]);
        all.filter_map(|range| range.parse().ok())
    }
}

impl Reconcile for Allocator {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key) else {
            self.pending.lock().remove(key);
            return Ok(Next::Done);
        };
        if node.view::<NodeView>()?.spec.ranges().next().is_some() {
            self.pending.lock().remove(key);
            return Ok(Next::Done);
        }
        if node.header().deleting {
            return Ok(Next::Done);
        }
        let Some(subnets) = self.allocate(key) else {
            self.record_event(&node, "CIDRNotAvailable");
            return Err(Error::failed(
                "failed to allocate cidr: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range",
            ));
        };
        let assigned = assign(client, &node, &subnets).await;
        if assigned.is_err() {
            self.pending.lock().remove(key);
            self.record_event(&node, "CIDRAssignmentFailed");
        }
        assigned
    }
}

impl Allocator {
    /// Free subnets, reserved for the node.
    fn allocate(&self, key: &Key) -> Option<Vec<Cidr>> {
        let mut pending = self.pending.lock();
        if let Some(subnets) = pending.get(key) {
            return Some(subnets.clone());
        }
        let nodes = self.nodes.list();
        let views = nodes.iter().filter_map(|node| node.view::<NodeView>().ok());
        let mut used: HashSet<Cidr> = HashSet::new();
        views.for_each(|view| used.extend(view.spec.ranges()));
        used.extend(pending.values().flatten());
        let subnets = self.pools.first_free(&used)?;
        pending.insert(key.clone(), subnets.clone());
        Some(subnets)
    }

    fn record_event(&self, node: &TypedObject<Node>, reason: &str) {
        let message = format!("Node {} status is now: {reason}", node.key().name());
        self.events.normal(node, reason, message);
    }
}

async fn assign(client: &Client, node: &TypedObject<Node>, subnets: &[Cidr]) -> Result<Next, Error> {
    let texts: Vec<String> = subnets.iter().map(ToString::to_string).collect();
    let spec = json!({"podCIDR": texts[0], "podCIDRs": texts});
    let patch = Patch::strategic(&json!({"metadata": {"uid": node.uid()}, "spec": spec}))?;
    let handle = client.dynamic(Node::resource(), "");
    match handle.patch(node.key().name(), &patch).await {
        Err(status) if status.is_not_found() => Ok(Next::Done),
        written => Ok(written.map(|_| Next::Done)?),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use setpoint_testkit::{Cluster, node};
    use tokio::task::JoinSet;

    use super::*;

    fn pod_cidrs(cluster: &Cluster) -> BTreeSet<String> {
        let nodes = cluster.list::<Node>().into_iter();
        nodes.filter_map(|node| node.spec?.pod_cidr).collect()
    }

    #[tokio::test]
    async fn every_node_has_its_own_pod_cidr_and_frees_it() {
        let cluster = Cluster::start().await;
        let config = Config {
            cluster_cidrs: ClusterCidrs {
                pools: vec![("10.244.0.0/22".parse().unwrap(), 24)],
                excluded: Vec::new(),
            },
            ..Config::default()
        };
        let mut running = JoinSet::new();
        running.spawn(run(cluster.context(NAME), config, CancellationToken::new()));
        let nodes = cluster.client("test").all::<Node>();
        for n in 0..5 {
            nodes.create(&node(&format!("n{n}")).build()).await.unwrap();
        }
        cluster
            .until("four pod CIDRs", |cluster| pod_cidrs(cluster).len() == 4)
            .await;
        cluster.settle().await;
        let holder = cluster
            .list::<Node>()
            .into_iter()
            .find(|node| node.spec.as_ref().is_some_and(|spec| spec.pod_cidr.is_some()));
        let name = holder.and_then(|node| node.metadata.name).unwrap();
        nodes
            .delete(&name, setpoint_api::options::DeleteOptions::default())
            .await
            .unwrap();
        cluster
            .until("four pod CIDRs again", |cluster| pod_cidrs(cluster).len() == 4)
            .await;
        let expected = (0..4).map(|n| format!("10.244.{n}.0/24"));
        assert_eq!(pod_cidrs(&cluster), expected.collect());
    }
}
