//! Gives every node a part of the cluster's addresses for its pods.
//!
//! What was given is in the nodes themselves; [`mod@plan`] finds what is left. Parts that were just given are kept in mind
//! here until the nodes say so, so that two workers never give the same.

mod plan;

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::Node;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Change, Key};
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile, Recorder, Typed,
};
use tokio_util::sync::CancellationToken;

use crate::Config;
use crate::ranges::Range;

pub use plan::Pools;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "node-ipam-controller";

/// Runs the controller until stopped. Without ranges to give it has nothing to do.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    if config.pod_ranges.pools.is_empty() {
        stop.cancelled().await;
        return Ok(());
    }
    let reconciler = Allocator {
        nodes: context.lister()?,
        client: context.client.clone(),
        events: context.events.of("cidrAllocator"),
        pools: config.pod_ranges.clone(),
        given: Mutex::default(),
    };
    let nodes = reconciler.nodes.clone();
    Controller::new(NAME, reconciler)
        .watches(Node::resource().group_resource(), move |change| {
            concerned(&nodes, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
struct Allocator {
    nodes: Lister<Node>,
    client: Client,
    events: Recorder,
    pools: Pools,
    /// What was given to nodes that do not say so yet.
    given: Mutex<HashMap<Key, Vec<Range>>>,
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

/// The node itself, and all that have nothing yet when one gives back what it had.
fn concerned(nodes: &Lister<Node>, change: &Change) -> Vec<Key> {
    let mut keys = vec![change.key().clone()];
    if change.is_deletion() {
        let has_none = |node: &Typed<Node>| {
            node.view::<NodeView>()
                .is_ok_and(|view| view.spec.ranges().next().is_none())
        };
        let waiting = nodes.list().into_iter().filter(has_none);
        keys.extend(waiting.map(|node| node.key().clone()));
    }
    keys
}

impl NodeSpec {
    fn ranges(&self) -> impl Iterator<Item = Range> {
        let all = self.pod_cidrs.iter().chain([&self.pod_cidr]);
        all.filter_map(|range| range.parse().ok())
    }
}

impl Reconcile for Allocator {
    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key) else {
            self.given.lock().remove(key);
            return Ok(Next::Done);
        };
        if node.view::<NodeView>()?.spec.ranges().next().is_some() {
            self.given.lock().remove(key);
            return Ok(Next::Done);
        }
        if node.header().deleting {
            return Ok(Next::Done);
        }
        let Some(parts) = self.take(key) else {
            self.tell(&node, "CIDRNotAvailable");
            return Err(Error::failed(
                "failed to allocate cidr: CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range",
            ));
        };
        let given = self.give(&node, &parts).await;
        if given.is_err() {
            self.given.lock().remove(key);
            self.tell(&node, "CIDRAssignmentFailed");
        }
        given
    }
}

impl Allocator {
    /// Parts that nobody has, kept for the node.
    fn take(&self, key: &Key) -> Option<Vec<Range>> {
        let mut given = self.given.lock();
        if let Some(parts) = given.get(key) {
            return Some(parts.clone());
        }
        let nodes = self.nodes.list();
        let views = nodes.iter().filter_map(|node| node.view::<NodeView>().ok());
        let mut used: HashSet<Range> = HashSet::new();
        views.for_each(|view| used.extend(view.spec.ranges()));
        used.extend(given.values().flatten());
        let parts = self.pools.free(&used)?;
        given.insert(key.clone(), parts.clone());
        Some(parts)
    }

    async fn give(&self, node: &Typed<Node>, parts: &[Range]) -> Result<Next, Error> {
        let texts: Vec<String> = parts.iter().map(ToString::to_string).collect();
        let spec = json!({"podCIDR": texts[0], "podCIDRs": texts});
        let patch = Patch::strategic(&json!({"metadata": {"uid": node.uid()}, "spec": spec}))?;
        let handle = self.client.dynamic(Node::resource(), "");
        match handle.patch(node.key().name(), &patch).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }

    fn tell(&self, node: &Typed<Node>, reason: &str) {
        let message = format!("Node {} status is now: {reason}", node.key().name());
        self.events.normal(node, reason, message);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use setpoint_testkit::{Cluster, node};
    use tokio::task::JoinSet;

    use super::*;

    fn given(cluster: &Cluster) -> BTreeSet<String> {
        let nodes = cluster.list::<Node>().into_iter();
        nodes.filter_map(|node| node.spec?.pod_cidr).collect()
    }

    #[tokio::test]
    async fn every_node_has_addresses_of_its_own_and_gives_them_back() {
        let cluster = Cluster::start().await;
        let config = Config {
            pod_ranges: Pools {
                pools: vec![("10.244.0.0/22".parse().unwrap(), 24)],
                taken: Vec::new(),
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
            .until("four parts", |cluster| given(cluster).len() == 4)
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
            .until("four parts again", |cluster| given(cluster).len() == 4)
            .await;
        let expected = (0..4).map(|n| format!("10.244.{n}.0/24"));
        assert_eq!(given(&cluster), expected.collect());
    }
}
