//! [`NominatedPods`]: pods for which preemption makes space on a node. Until they are bound, filters count them there for
//! pods of the same or a lower priority.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::Key;

use crate::pod_info::PodInfo;

/// Nominated pods by node.
#[derive(Debug, Default)]
pub struct NominatedPods {
    by_node: HashMap<CompactString, Vec<Arc<PodInfo>>>,
    nodes: HashMap<Key, CompactString>,
}

impl NominatedPods {
    /// The pods nominated to the node.
    pub fn on_node(&self, node: &str) -> &[Arc<PodInfo>] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All nominated pods with their nodes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<PodInfo>, &CompactString)> {
        let by_node = self.by_node.iter();
        by_node.flat_map(|(node, pods)| pods.iter().map(move |pod| (pod, node)))
    }

    /// The node that the pod is nominated to.
    pub fn node_of(&self, key: &Key) -> Option<&CompactString> {
        self.nodes.get(key)
    }

    pub(super) fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.nodes.insert(pod.key.clone(), node.into());
        self.by_node.entry(node.into()).or_default().push(pod);
    }

    /// Removes the nomination of a pod; returns the pod and its node.
    pub(super) fn remove(&mut self, key: &Key) -> Option<(Arc<PodInfo>, CompactString)> {
        let node = self.nodes.remove(key)?;
        let pods = self.by_node.get_mut(&node)?;
        let position = pods.iter().position(|pod| pod.key == *key)?;
        let pod = pods.remove(position);
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
        Some((pod, node))
    }
}
