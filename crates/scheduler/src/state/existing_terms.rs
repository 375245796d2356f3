//! [`ExistingTerms`]: the affinity terms of the pods on nodes, each distinct term once, with the pods that have it counted
//! by topology value.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;

use super::node_table::NodeIndex;
use super::topology::{CountChange, NamespaceLabels, TopologyCounts, TopologyTerm};
use super::topology_column::DomainChanges;
use crate::pod_info::PodInfo;

/// A term of existing pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExistingTerm {
    pub kind: TermKind,
    pub term: TopologyTerm,
}

/// The type of an affinity term. The weight is part of a preferred one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TermKind {
    RequiredAffinity,
    RequiredAntiAffinity,
    PreferredAffinity(i32),
    PreferredAntiAffinity(i32),
}

/// The distinct terms, in buckets by namespace.
#[derive(Debug, Default)]
pub struct ExistingTerms {
    buckets: HashMap<CompactString, HashMap<ExistingTerm, Arc<TopologyCounts>>>,
    /// The number of the last change.
    sequence: u64,
}

impl ExistingTerms {
    /// The terms that select this pod, with the pods that have the term counted by topology value.
    pub fn matching<'a>(
        &'a self,
        pod: &'a PodInfo,
        namespaces: &'a NamespaceLabels,
    ) -> impl Iterator<Item = (&'a ExistingTerm, &'a Arc<TopologyCounts>)> {
        let buckets = [pod.namespace(), ""].into_iter();
        let terms = buckets.filter_map(|name| self.buckets.get(name)).flatten();
        terms.filter(move |(existing, _)| existing.term.matches(pod, namespaces))
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The number of the last change of any term or count.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn pod_changed(&mut self, change: &CountChange<'_>) {
        let CountChange {
            pod,
            node,
            domain,
            by,
            sequence,
        } = *change;
        if pod.spec.affinity.is_empty() {
            return;
        }
        self.sequence = sequence;
        for existing in terms_of(pod) {
            let name: CompactString = existing.term.namespaces.bucket().into();
            let bucket = self.buckets.entry(name.clone()).or_default();
            let key = existing.term.topology_key.clone();
            let counts = Arc::make_mut(bucket.entry(existing.clone()).or_default());
            counts.add(node, domain(&key), by);
            counts.set_sequence(sequence);
            if counts.nodes().next().is_none() {
                bucket.remove(&existing);
            }
            if bucket.is_empty() {
                self.buckets.remove(&name);
            }
        }
    }

    pub(super) fn node_relabeled(&mut self, node: NodeIndex, changes: &DomainChanges, sequence: u64) {
        for (existing, counts) in self.buckets.values_mut().flatten() {
            if let Some((old, new)) = changes.get(&existing.term.topology_key) {
                let counts = Arc::make_mut(counts);
                counts.relabel(node, *old, *new);
                counts.set_sequence(sequence);
                self.sequence = sequence;
            }
        }
    }

    /// Whether a term has this topology key.
    pub(super) fn uses(&self, topology_key: &str) -> bool {
        let mut terms = self.buckets.values().flat_map(HashMap::keys);
        terms.any(|existing| existing.term.topology_key == topology_key)
    }
}

/// The affinity terms of a pod.
fn terms_of(pod: &PodInfo) -> Vec<ExistingTerm> {
    let affinity = &pod.spec.affinity;
    let required = affinity
        .required
        .iter()
        .map(|term| (TermKind::RequiredAffinity, term));
    let anti = affinity.required_anti.iter();
    let anti = anti.map(|term| (TermKind::RequiredAntiAffinity, term));
    let preferred = affinity.preferred.iter();
    let preferred = preferred.map(|one| (TermKind::PreferredAffinity(one.weight), &one.term));
    let preferred_anti = affinity.preferred_anti.iter();
    let preferred_anti = preferred_anti.map(|one| (TermKind::PreferredAntiAffinity(one.weight), &one.term));
    let all = required.chain(anti).chain(preferred).chain(preferred_anti);
    let existing = all.map(|(kind, term)| ExistingTerm {
        kind,
        term: term.clone(),
    });
    existing.collect()
}
