//! Topology counters: how many pods that match a term are on the nodes with each value of a label.
//!
//! A counter is built by one pass over all pods when a term is first used. From then on every change of a pod or a node
//! updates it, so that the cost of affinity and spread does not grow with the number of pods. Terms that existing pods have
//! are counted likewise: the work of a cycle grows with the number of distinct terms, not with that of the pods.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use compact_str::CompactString;
use parking_lot::Mutex;

use super::node_table::NodeIndex;
use super::topology_column::{DomainChanges, DomainId, NumberMap};
use crate::pod_info::PodInfo;
use crate::pod_info::selector::PodSelector;

/// Pods that are counted by the value of a node label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopologyTerm {
    pub topology_key: CompactString,
    pub namespaces: NamespaceSet,
    pub selector: PodSelector,
    /// Whether pods that are being deleted count: in affinity they do, in topology spread they do not.
    pub counts_terminating: bool,
}

/// Namespaces by name, and those with matching labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamespaceSet {
    /// Sorted.
    names: Vec<CompactString>,
    selector: Option<PodSelector>,
}

/// The labels of each namespace, sorted by name.
pub type NamespaceLabels = HashMap<CompactString, Box<[(CompactString, CompactString)]>>;

/// The pods that match a term, counted.
#[derive(Debug, Clone, Default)]
pub struct TopologyCounts {
    by_domain: NumberMap<DomainId>,
    by_node: NumberMap<NodeIndex>,
    /// The number of the last change.
    sequence: u64,
}

/// Counters by term, in buckets by namespace.
#[derive(Debug, Default)]
pub(super) struct TopologyIndex {
    buckets: Mutex<HashMap<CompactString, HashMap<TopologyTerm, Counter>>>,
    changes: u64,
}

/// A pod that is counted on a node `by` times.
#[derive(Clone, Copy)]
pub(super) struct CountChange<'a> {
    pub(super) pod: &'a PodInfo,
    pub(super) node: NodeIndex,
    /// The domain of the node by a topology key.
    pub(super) domain: &'a dyn Fn(&str) -> Option<DomainId>,
    pub(super) by: i64,
    /// The number of the change.
    pub(super) sequence: u64,
}

#[derive(Debug)]
struct Counter {
    counts: Arc<TopologyCounts>,
    /// Whether it was used since the last sweep.
    is_used: AtomicBool,
}

/// After this many changes of pods, counters are dropped that were not used in the meantime.
const SWEEP_CHANGES: u64 = 1 << 16;

// === impl NamespaceSet ===

impl NamespaceSet {
    pub fn new(mut names: Vec<CompactString>, selector: Option<PodSelector>) -> Self {
        names.sort();
        names.dedup();
        Self { names, selector }
    }

    pub fn contains(&self, namespace: &str, labels: &NamespaceLabels) -> bool {
        self.names.iter().any(|name| name == namespace)
            || self.selector.as_ref().is_some_and(|selector| {
                let labels = labels.get(namespace).map_or(&[][..], |labels| labels);
                selector.matches(labels)
            })
    }

    /// The namespaces that are in both; `None` if that depends on the labels of namespaces.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if self == other {
            return Some(self.clone());
        }
        if self.depends_on_labels() || other.depends_on_labels() {
            return None;
        }
        let names = self.names.iter().filter(|name| other.names.contains(name));
        Some(Self::new(names.cloned().collect(), None))
    }

    /// The bucket of counters: the only namespace, or empty if there may be several.
    pub(super) fn bucket(&self) -> &str {
        match (&self.names[..], &self.selector) {
            ([only], None) => only,
            _ => "",
        }
    }

    /// Whether it selects namespaces by their labels.
    pub fn depends_on_labels(&self) -> bool {
        self.selector.is_some()
    }
}

// === impl TopologyTerm ===

impl TopologyTerm {
    /// Whether the term selects the pod.
    pub fn matches(&self, pod: &PodInfo, namespaces: &NamespaceLabels) -> bool {
        (self.counts_terminating || !pod.is_terminating())
            && self.namespaces.contains(pod.namespace(), namespaces)
            && self.selector.matches(&pod.labels)
    }
}

// === impl TopologyCounts ===

impl TopologyCounts {
    /// The pods on nodes of the domain.
    pub fn in_domain(&self, domain: DomainId) -> i64 {
        self.by_domain.get(&domain).copied().unwrap_or(0)
    }

    /// The domains that have pods, with their number.
    pub fn domains(&self) -> impl ExactSizeIterator<Item = (DomainId, i64)> {
        self.by_domain.iter().map(|(domain, count)| (*domain, *count))
    }

    /// The nodes that have pods, with their number; also nodes without the topology key.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIndex, i64)> {
        self.by_node.iter().map(|(node, count)| (*node, *count))
    }

    pub fn on_node(&self, node: NodeIndex) -> i64 {
        self.by_node.get(&node).copied().unwrap_or(0)
    }

    /// Whether no pod is on a node with the topology key.
    pub fn is_empty(&self) -> bool {
        self.by_domain.is_empty()
    }

    /// The number of the last change.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Counts a pod on the node and in its domain `by` times.
    pub fn add(&mut self, node: NodeIndex, domain: Option<DomainId>, by: i64) {
        add_to(&mut self.by_node, node, by);
        if let Some(domain) = domain {
            add_to(&mut self.by_domain, domain, by);
        }
    }

    pub(super) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Moves the pods of a node to its new domain.
    pub(super) fn relabel(&mut self, node: NodeIndex, old: Option<DomainId>, new: Option<DomainId>) {
        let count = self.on_node(node);
        if count == 0 || old == new {
            return;
        }
        if let Some(old) = old {
            add_to(&mut self.by_domain, old, -count);
        }
        if let Some(new) = new {
            add_to(&mut self.by_domain, new, count);
        }
    }
}

fn add_to<K: std::hash::Hash + Eq>(counts: &mut NumberMap<K>, key: K, by: i64) {
    use std::collections::hash_map::Entry;
    match counts.entry(key) {
        Entry::Occupied(mut entry) => {
            *entry.get_mut() += by;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
        Entry::Vacant(entry) => {
            entry.insert(by);
        }
    }
}

// === impl TopologyIndex ===

impl TopologyIndex {
    /// The counter of a term, built by `count` on first use.
    pub(super) fn counts(
        &self,
        term: &TopologyTerm,
        count: impl FnOnce() -> TopologyCounts,
    ) -> Arc<TopologyCounts> {
        let mut buckets = self.buckets.lock();
        let bucket = buckets.entry(term.namespaces.bucket().into()).or_default();
        if let Some(counter) = bucket.get(term) {
            counter.is_used.store(true, Ordering::Relaxed);
            return counter.counts.clone();
        }
        let counts = Arc::new(count());
        let counter = Counter {
            counts: counts.clone(),
            is_used: AtomicBool::new(true),
        };
        bucket.insert(term.clone(), counter);
        counts
    }

    /// Counts a pod in every counter that selects it. Returns whether unused counters were dropped.
    pub(super) fn pod_changed(&mut self, change: &CountChange<'_>, labels: &NamespaceLabels) -> bool {
        let buckets = self.buckets.get_mut();
        for name in [change.pod.namespace(), ""] {
            let counters = buckets.get_mut(name).into_iter().flatten();
            for (term, counter) in counters.filter(|(term, _)| term.matches(change.pod, labels)) {
                let counts = Arc::make_mut(&mut counter.counts);
                counts.add(change.node, (change.domain)(&term.topology_key), change.by);
                counts.set_sequence(change.sequence);
            }
        }
        self.changes += 1;
        let is_due = self.changes.is_multiple_of(SWEEP_CHANGES);
        if is_due {
            self.sweep();
        }
        is_due
    }

    /// Moves the pods of a node whose labels changed.
    pub(super) fn node_relabeled(&mut self, node: NodeIndex, changes: &DomainChanges, sequence: u64) {
        for (term, counter) in self.buckets.get_mut().values_mut().flatten() {
            if let Some((old, new)) = changes.get(&term.topology_key) {
                let counts = Arc::make_mut(&mut counter.counts);
                counts.relabel(node, *old, *new);
                counts.set_sequence(sequence);
            }
        }
    }

    /// Whether a counter counts by this topology key.
    pub(super) fn uses(&self, topology_key: &str) -> bool {
        let buckets = self.buckets.lock();
        let mut terms = buckets.values().flat_map(HashMap::keys);
        terms.any(|term| term.topology_key == topology_key)
    }

    /// Drops the counters that depend on the labels of namespaces, to be built again on next use.
    pub(super) fn namespaces_relabeled(&mut self) {
        for bucket in self.buckets.get_mut().values_mut() {
            bucket.retain(|term, _| !term.namespaces.depends_on_labels());
        }
    }

    fn sweep(&mut self) {
        for bucket in self.buckets.get_mut().values_mut() {
            bucket.retain(|_, counter| counter.is_used.swap(false, Ordering::Relaxed));
        }
    }
}
