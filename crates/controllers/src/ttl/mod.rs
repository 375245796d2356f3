//! Annotates nodes with how long their kubelets may cache Secrets and ConfigMaps: the longer, the more nodes there are.
//! The boundaries overlap, so that small changes of the cluster's size have no effect.

use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;
use serde_json::json;
use setpoint_api::{Change, Key};
use setpoint_runtime::{Client, Context, Controller, Error, Lister, Next, Object, Patch, Reconcile};
use tokio_util::sync::CancellationToken;

use crate::Config;

/// The name as kube-controller-manager has it.
pub const NAME: &str = "ttl-controller";

/// The annotation that kubelets read.
const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// Minimum and maximum number of nodes, and the TTL in seconds.
const BOUNDARIES: [(usize, usize, u32); 5] = [
    (0, 100, 0),
    (90, 500, 15),
    (450, 1000, 30),
    (900, 2000, 60),
    (1800, usize::MAX, 300),
];

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = Ttl {
        nodes: context.lister()?,
        boundary: AtomicUsize::default(),
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
struct Ttl {
    nodes: Lister<Node>,
    /// The current index into the boundaries.
    boundary: AtomicUsize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeView {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Annotations,
}

#[derive(Debug, Default, Deserialize)]
struct Annotations {
    #[serde(rename = "node.alpha.kubernetes.io/ttl")]
    ttl: Option<String>,
}

/// The node itself; all nodes if the boundary changes with its creation or deletion.
fn nodes_to_enqueue(nodes: &Lister<Node>, change: &Change) -> Vec<Key> {
    if matches!(change, Change::Modified { .. }) {
        return vec![change.key().clone()];
    }
    let size = nodes.cache().snapshot().len();
    let is_bound = BOUNDARIES
        .iter()
        .any(|(from, to, _)| size.abs_diff(*from) <= 1 || size.abs_diff(*to) <= 1);
    match is_bound && size > 1 {
        true => nodes.list().iter().map(|node| node.key().clone()).collect(),
        false => vec![change.key().clone()],
    }
}

/// The index into the boundaries for a cluster of this size, starting from the previous one.
fn boundary(mut at: usize, size: usize) -> usize {
    while size > BOUNDARIES[at].1 {
        at += 1;
    }
    while size < BOUNDARIES[at].0 {
        at -= 1;
    }
    at
}

impl Reconcile for Ttl {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(node) = self.nodes.find(key) else {
            return Ok(Next::Done);
        };
        let size = self.nodes.cache().snapshot().len();
        let at = boundary(self.boundary.load(Ordering::Relaxed), size);
        self.boundary.store(at, Ordering::Relaxed);
        let ttl = BOUNDARIES[at].2.to_string();
        let view = node.view::<NodeView>()?;
        if view.metadata.annotations.ttl.as_ref() == Some(&ttl) {
            return Ok(Next::Done);
        }
        let metadata = json!({"uid": node.uid(), "annotations": {TTL: ttl}});
        let patch = Patch::strategic(&json!({"metadata": metadata}))?;
        let handle = client.dynamic(Node::resource(), "");
        match handle.patch(key.name(), &patch).await {
            Err(status) if status.is_not_found() => Ok(Next::Done),
            written => Ok(written.map(|_| Next::Done)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_testkit::{Cluster, Component, node};

    use super::*;

    #[track_caller]
    fn check(sizes: &[(usize, u32)]) {
        let mut at = 0;
        for (size, expected) in sizes {
            at = boundary(at, *size);
            assert_eq!(BOUNDARIES[at].2, *expected, "at {size} nodes");
        }
    }

    #[test]
    fn bounds_overlap() {
        check(&[(1, 0), (100, 0), (101, 15), (95, 15), (89, 0), (95, 0)]);
        check(&[(5000, 300), (1801, 300), (1799, 60), (10, 0)]);
    }

    fn seconds(cluster: &Cluster) -> Vec<String> {
        let nodes = cluster.list::<Node>().into_iter();
        nodes
            .filter_map(|node| node.metadata.annotations?.remove(TTL))
            .collect()
    }

    #[tokio::test]
    async fn every_node_is_annotated_and_all_are_when_the_cluster_grows() {
        let (cluster, _components) = Cluster::with([Component::Controller("ttl")]).await;
        let nodes = cluster.client("test").all::<Node>();
        nodes.create(&node("n").build()).await.unwrap();
        cluster.until("a word", |cluster| seconds(cluster) == ["0"]).await;
        for n in 0..100 {
            nodes.create(&node(&format!("n{n}")).build()).await.unwrap();
        }
        cluster
            .until("a word to all", |cluster| {
                let ttls = seconds(cluster);
                ttls.len() == 101 && ttls.iter().all(|seconds| seconds == "15")
            })
            .await;
        cluster.settle().await;
        cluster.interceptor.clear();
        nodes.create(&node("last").build()).await.unwrap();
        cluster.settle().await;
        assert_eq!(cluster.interceptor.count("ttl-controller patch nodes"), 1);
    }
}
