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

    /// Nominates a pod to a node, instead of an earlier one.
    pub fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove(&pod.key);
        self.nodes.insert(pod.key.clone(), node.into());
        self.by_node.entry(node.into()).or_default().push(pod);
    }

    /// Removes the nomination of a pod.
    pub fn remove(&mut self, key: &Key) {
        let Some(node) = self.nodes.remove(key) else {
            return;
        };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| pod.key != *key);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }
}
