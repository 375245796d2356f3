//! [`History`]: the last changes of the state, by which an earlier state is computed again, to explain a decision by what
//! its cycle saw.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::Key;

use super::{ClusterState, NamespaceLabels, NodeProperties};
use crate::pod_info::PodInfo;

/// The number of changes that are kept; the oldest is dropped.
const MAX_CHANGES: usize = 1 << 14;

/// The last changes.
#[derive(Debug, Default)]
pub(super) struct History {
    /// What was there before each change, with the state's sequence at that time, oldest first.
    changes: VecDeque<(u64, Before)>,
    /// States from this sequence on are known.
    start: u64,
}

/// What was there before a change.
#[derive(Debug)]
pub(super) enum Before {
    Pod {
        key: Key,
        pod: Option<Arc<PodInfo>>,
    },
    Node {
        name: CompactString,
        properties: Option<Arc<NodeProperties>>,
    },
    Nomination {
        key: Key,
        nomination: Option<(Arc<PodInfo>, CompactString)>,
    },
}

/// The nodes and pods of an earlier state. Namespaces are as they are now.
#[derive(Debug)]
pub struct PastState {
    nodes: HashMap<CompactString, Arc<NodeProperties>>,
    pods: HashMap<Key, Arc<PodInfo>>,
    nominations: HashMap<Key, (Arc<PodInfo>, CompactString)>,
    namespaces: NamespaceLabels,
}

impl History {
    /// A history that knows the states from this sequence on.
    pub(super) fn from(start: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            start,
        }
    }

    pub(super) fn record(&mut self, sequence: u64, before: Before) {
        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
            self.start = self.changes.front().map_or(sequence, |(oldest, _)| *oldest);
        }
        self.changes.push_back((sequence, before));
    }
}

impl ClusterState {
    /// The state as it was at a sequence; `None` if too much has changed since.
    pub fn at(&self, sequence: u64) -> Option<PastState> {
        if sequence < self.history.start {
            return None;
        }
        let nodes = self.nodes.live().iter().map(|index| self.node(*index));
        let nodes = nodes.filter_map(|node| Some((node.name().into(), node.find_properties()?.clone())));
        let pods = self
            .pods
            .iter()
            .map(|(key, entry)| (key.clone(), entry.pod.clone()));
        let nominations = self.nominated.iter();
        let mut past = PastState {
            nodes: nodes.collect(),
            pods: pods.collect(),
            nominations: nominations
                .map(|(pod, node)| (pod.key.clone(), (pod.clone(), node.clone())))
                .collect(),
            namespaces: self.namespaces.clone(),
        };
        let later = self.history.changes.iter().rev();
        for (_, before) in later.take_while(|(changed, _)| *changed >= sequence) {
            past.restore(before);
        }
        Some(past)
    }
}

impl PastState {
    fn restore(&mut self, before: &Before) {
        match before {
            Before::Pod { key, pod } => set(&mut self.pods, key, pod.clone()),
            Before::Node { name, properties } => set(&mut self.nodes, name, properties.clone()),
            Before::Nomination { key, nomination } => set(&mut self.nominations, key, nomination.clone()),
        }
    }

    /// A state with these nodes and pods.
    pub fn build(self) -> ClusterState {
        let mut state = ClusterState {
            namespaces: self.namespaces,
            ..ClusterState::default()
        };
        let mut nodes: Vec<_> = self.nodes.into_iter().collect();
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, properties) in nodes {
            state.change_node(&name, Some(properties));
        }
        for pod in self.pods.into_values() {
            state.set_pod(pod);
        }
        for (pod, node) in self.nominations.into_values() {
            state.nominate(pod, &node);
        }
        state
    }
}

fn set<K: Clone + Eq + std::hash::Hash, V>(map: &mut HashMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node, pod_requesting};

    #[test]
    fn a_state_is_known_until_too_much_has_changed() {
        let mut state = ClusterState::default();
        state.set_node(&node("a", 1000));
        let sequence = state.sequence();
        let pod = Arc::new(pod_requesting("p", "a", 100));
        state.nominate(pod.clone(), "a");
        state.assume(pod.clone());
        let assumed = state.sequence();
        for _ in 0..MAX_CHANGES / 2 - 2 {
            state.remove_pod(&pod.key);
            state.set_pod(pod.clone());
        }
        let count = |state: &ClusterState| (state.pod_count(), state.nominated().on_node("a").len());
        assert_eq!(count(&state.at(sequence).unwrap().build()), (0, 0));
        assert_eq!(count(&state.at(assumed).unwrap().build()), (1, 0));
        let nominated = state.at(sequence + 1).unwrap().build();
        assert_eq!(count(&nominated), (0, 1));
        state.remove_pod(&pod.key);
        state.remove_node("a");
        assert!(state.at(sequence).is_none());
        assert!(state.at(assumed).is_some());
    }
}
