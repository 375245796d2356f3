//! The scheduler's picture of the cluster: its nodes, and which pod takes what on which of them.
//!
//! The picture runs ahead of the caches: a pod that is about to be bound is *assumed* on its node at once, so that
//! the next decision sees the room as taken. The bound pod, once seen, confirms the assumption; a failed binding
//! takes it back.

use std::collections::HashMap;

use compact_str::CompactString;
use setpoint_api::{Key, Stored};

use crate::node_info::{NodeInfo, Offer};
use crate::pod_info::PodInfo;

/// Nodes in one row, to walk fast, and what is placed on them.
#[derive(Debug, Default)]
pub struct Snapshot {
    nodes: Vec<NodeInfo>,
    /// Where each node stands in `nodes`.
    places: HashMap<CompactString, usize>,
    /// Every pod that takes up room: exactly these are summed up in `nodes`.
    pods: HashMap<Key, PodInfo>,
}

/// What a change means for the pods that found no room before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// There may be room now where there was none.
    Room,
    None,
}

impl Snapshot {
    pub fn nodes(&self) -> &[NodeInfo] {
        &self.nodes
    }

    /// How many nodes there are to choose from.
    pub fn len(&self) -> usize {
        self.nodes.iter().filter(|node| node.offer.is_some()).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in a node as it is now.
    pub fn set_node(&mut self, object: &Stored) -> Effect {
        let offer = Some(Offer::read(object));
        let node = self.node(object.key().name());
        if node.offer == offer {
            return Effect::None;
        }
        node.offer = offer;
        Effect::Room
    }

    /// The node is gone. Pods that say they run on it are still known, until they go too.
    pub fn remove_node(&mut self, name: &str) {
        self.node(name).offer = None;
        self.tidy(name);
    }

    /// Takes in a pod as it is now, wherever it was before.
    pub fn set_pod(&mut self, pod: PodInfo) -> Effect {
        if self.pods.get(&pod.key) == Some(&pod) {
            return Effect::None;
        }
        let effect = self.remove_pod(&pod.key);
        if pod.is_placed() {
            self.node(&pod.node).add(&pod);
            self.pods.insert(pod.key.clone(), pod);
        }
        effect
    }

    /// The pod takes up no room any more.
    pub fn remove_pod(&mut self, key: &Key) -> Effect {
        let Some(pod) = self.pods.remove(key) else {
            return Effect::None;
        };
        self.node(&pod.node).remove(&pod);
        self.tidy(&pod.node);
        Effect::Room
    }

    /// Whether this very pod is already taken in on some node.
    pub fn holds(&self, key: &Key, uid: &str) -> bool {
        self.pods.get(key).is_some_and(|pod| pod.uid == uid)
    }

    /// The node of that name, made if only a pod speaks of it yet.
    fn node(&mut self, name: &str) -> &mut NodeInfo {
        let place = *self.places.entry(name.into()).or_insert_with(|| {
            self.nodes.push(NodeInfo::new(name));
            self.nodes.len() - 1
        });
        &mut self.nodes[place]
    }

    /// Drops a node of which nothing is known any more.
    fn tidy(&mut self, name: &str) {
        let Some(&place) = self.places.get(name) else {
            return;
        };
        if !self.nodes[place].is_forgotten() {
            return;
        }
        self.places.remove(name);
        self.nodes.swap_remove(place);
        if let Some(moved) = self.nodes.get(place) {
            self.places.insert(moved.name.clone(), place);
        }
    }
}

#[cfg(test)]
mod tests;
