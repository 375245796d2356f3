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

    /// The node that the pod is nominated to.
    pub fn node_of(&self, key: &Key) -> Option<&CompactString> {
        self.nodes.get(key)
    }

    pub(super) fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.nodes.insert(pod.key.clone(), node.into());
        self.by_node.entry(node.into()).or_default().push(pod);
    }

    /// Removes the nomination of a pod; returns its node.
    pub(super) fn remove(&mut self, key: &Key) -> Option<CompactString> {
        let node = self.nodes.remove(key)?;
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| pod.key != *key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }
}
