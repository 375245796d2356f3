//! [`Snapshot`]: the scheduler's view of the cluster: the nodes, and the pods on them.
//!
//! The snapshot runs ahead of the caches: a pod that is about to be bound is *assumed* on its node at once, so that the
//! next cycle counts its requests. The bound pod, once seen in the cache, confirms the assumption; a failed binding
//! takes it back.

use std::collections::HashMap;

use compact_str::CompactString;
use setpoint_api::{Key, Stored};

use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::PodInfo;

/// The nodes in one vector, to iterate fast, and the pods on them.
#[derive(Debug, Default)]
pub struct Snapshot {
    nodes: Vec<NodeInfo>,
    /// Index of each node in `nodes`, by name.
    indexes: HashMap<CompactString, usize>,
    /// Every pod that uses a node: exactly these are summed up in `nodes`.
    pods: HashMap<Key, PodInfo>,
}

/// What a change means for unschedulable pods (upstream: `QueueingHint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueingHint {
    /// The change may make an unschedulable pod schedulable.
    Queue,
    /// It cannot.
    Skip,
}

impl Snapshot {
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// The number of nodes with a Node object.
    pub fn len(&self) -> usize {
        self.nodes.iter().filter(|node| node.properties.is_some()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds or updates a node.
    pub fn set_node(&mut self, object: &Stored) -> QueueingHint {
        let properties = Some(NodeProperties::read(object));
        let node = self.node(object.key().name());
        if node.properties == properties {
            return QueueingHint::Skip;
        }
        node.properties = properties;
        QueueingHint::Queue
    }

    /// Removes the Node object. Pods bound to it stay counted until they are deleted, too.
    pub fn remove_node(&mut self, name: &str) {
        self.node(name).properties = None;
        self.remove_unused(name);
    }

    /// Adds or updates a pod, on whichever node it was before.
    pub fn set_pod(&mut self, pod: PodInfo) -> QueueingHint {
        if self.pods.get(&pod.key) == Some(&pod) {
            return QueueingHint::Skip;
        }
        let effect = self.remove_pod(&pod.key);
        if pod.uses_node() {
            self.node(&pod.node).add(&pod);
            self.pods.insert(pod.key.clone(), pod);
        }
        effect
    }

    /// Removes a pod from its node.
    pub fn remove_pod(&mut self, key: &Key) -> QueueingHint {
        let Some(pod) = self.pods.remove(key) else {
            return QueueingHint::Skip;
        };
        self.node(&pod.node).remove(&pod);
        self.remove_unused(&pod.node);
        QueueingHint::Queue
    }

    /// Whether the pod with this uid is on some node.
    pub fn contains(&self, key: &Key, uid: &str) -> bool {
        self.pods.get(key).is_some_and(|pod| pod.uid == uid)
    }

    /// The node of that name, added if only a pod refers to it yet.
    fn node(&mut self, name: &str) -> &mut NodeInfo {
        let index = *self.indexes.entry(name.into()).or_insert_with(|| {
            self.nodes.push(NodeInfo::new(name));
            self.nodes.len() - 1
        });
        &mut self.nodes[index]
    }

    /// Drops a node without a Node object and without pods.
    fn remove_unused(&mut self, name: &str) {
        let Some(&index) = self.indexes.get(name) else {
            return;
        };
        if !self.nodes[index].is_unused() {
            return;
        }
        self.indexes.remove(name);
        self.nodes.swap_remove(index);
        if let Some(moved) = self.nodes.get(index) {
            self.indexes.insert(moved.name.clone(), index);
        }
    }
}

#[cfg(test)]
mod tests;
