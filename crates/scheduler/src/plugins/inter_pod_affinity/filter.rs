//! PreFilter and Filter: required affinity, required anti-affinity, and the required anti-affinity of existing pods.

use std::sync::Arc;

use compact_str::CompactString;

use super::InterPodAffinity;
use crate::framework::{CycleState, Filter, PreFilter, PreFilterResult, Rejection};
use crate::pod_info::PodInfo;
use crate::state::{
    ClusterState, NamespaceLabels, NodeRef, TermKind, TopologyColumn, TopologyCounts, TopologyTerm,
};

const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Pods by the domains of a topology key.
#[derive(Debug, Clone)]
struct DomainCounts {
    topology_key: CompactString,
    column: Arc<TopologyColumn>,
    counts: Arc<TopologyCounts>,
}

/// What Filter needs: for every term, the pods that matter by topology value.
#[derive(Debug, Clone)]
struct FilterState {
    /// Per required affinity term, the pods that match *all* of them: one pod has to satisfy every term.
    affinity: Vec<DomainCounts>,
    anti_affinity: Vec<DomainCounts>,
    /// Per topology key, the pods with a required anti-affinity term that selects the pod.
    existing_anti_affinity: Vec<DomainCounts>,
    /// Whether the pod matches all its own required affinity terms: it may then be the first of its group.
    matches_itself: bool,
    /// The labels of the namespaces that the terms refer to.
    namespaces: Arc<NamespaceLabels>,
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let existing = cluster.existing_terms().matching(pod, cluster.namespaces());
        let existing = existing.filter(|(term, _)| term.kind == TermKind::RequiredAntiAffinity);
        let existing_anti_affinity: Vec<DomainCounts> = existing
            .map(|(existing, counts)| DomainCounts::new(&existing.term, cluster, counts.clone()))
            .collect();
        let affinity = &pod.spec.affinity;
        let has_no_terms = affinity.required.is_empty() && affinity.required_anti.is_empty();
        if has_no_terms && existing_anti_affinity.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        let anti = affinity.required_anti.iter();
        cycle.write_for_planning(FilterState {
            affinity: count_affinity(&affinity.required, cluster),
            anti_affinity: anti
                .map(|term| DomainCounts::new(term, cluster, cluster.matching_pods(term)))
                .collect(),
            existing_anti_affinity,
            matches_itself: matches_all(&affinity.required, pod, cluster.namespaces()),
            namespaces: Arc::new(namespaces_of_terms(pod, cluster.namespaces())),
        });
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, cycle: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: NodeRef<'_>) {
        if let Some(state) = cycle.read_mut::<FilterState>() {
            state.count(pod, added, node, 1);
        }
    }

    fn remove_pod(&self, cycle: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: NodeRef<'_>) {
        if let Some(state) = cycle.read_mut::<FilterState>() {
            state.count(pod, removed, node, -1);
        }
    }
}

impl Filter for InterPodAffinity {
    fn filter(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let Some(state) = cycle.read::<FilterState>() else {
            return Ok(());
        };
        if !state.satisfies_affinity(node) {
            return Err(Rejection::unresolvable(AFFINITY));
        }
        if state.anti_affinity.iter().any(|domain| domain.count(node) > 0) {
            return Err(Rejection::unschedulable(ANTI_AFFINITY));
        }
        let mut existing = state.existing_anti_affinity.iter();
        match existing.any(|domain| domain.count(node) > 0) {
            true => Err(Rejection::unschedulable(EXISTING_ANTI_AFFINITY)),
            false => Ok(()),
        }
    }
}

impl FilterState {
    /// Whether the node's domains have a pod that matches, or the pod may be the first of its group there.
    fn satisfies_affinity(&self, node: NodeRef<'_>) -> bool {
        let has_keys = self
            .affinity
            .iter()
            .all(|domain| domain.column.domain(node.index).is_some());
        if !has_keys {
            return false;
        }
        let is_satisfied = self.affinity.iter().all(|domain| domain.count(node) > 0);
        is_satisfied || (self.matches_itself && self.affinity.iter().all(|domain| domain.counts.is_empty()))
    }

    /// Counts another pod on the node `by` times.
    fn count(&mut self, pod: &PodInfo, other: &PodInfo, node: NodeRef<'_>, by: i64) {
        let own = &pod.spec.affinity;
        if matches_all(&own.required, other, &self.namespaces) {
            self.affinity.iter_mut().for_each(|domain| domain.add(node, by));
        }
        for (term, domain) in own.required_anti.iter().zip(&mut self.anti_affinity) {
            if term.matches(other, &self.namespaces) {
                domain.add(node, by);
            }
        }
        for term in &other.spec.affinity.required_anti {
            if term.matches(pod, &self.namespaces) {
                self.count_existing(term, node, by);
            }
        }
    }

    fn count_existing(&mut self, term: &TopologyTerm, node: NodeRef<'_>, by: i64) {
        let domains = &mut self.existing_anti_affinity;
        let known = domains.iter_mut().find(|domain| {
            domain.topology_key == term.topology_key && (by > 0 || domain.counts.on_node(node.index) > 0)
        });
        match known {
            Some(domain) => domain.add(node, by),
            None => {
                // Pods are added to and removed from one node only, which is then filtered.
                let mut domain = DomainCounts {
                    topology_key: term.topology_key.clone(),
                    column: Arc::new(TopologyColumn::of_node(&term.topology_key, node)),
                    counts: Arc::default(),
                };
                domain.add(node, by);
                domains.push(domain);
            }
        }
    }
}

impl DomainCounts {
    fn new(term: &TopologyTerm, cluster: &ClusterState, counts: Arc<TopologyCounts>) -> Self {
        Self {
            topology_key: term.topology_key.clone(),
            column: cluster.topology(&term.topology_key),
            counts,
        }
    }

    /// The pods in the domain of the node.
    fn count(&self, node: NodeRef<'_>) -> i64 {
        let domain = self.column.domain(node.index);
        domain.map_or(0, |domain| self.counts.in_domain(domain))
    }

    fn add(&mut self, node: NodeRef<'_>, by: i64) {
        Arc::make_mut(&mut self.counts).add(node.index, self.column.domain(node.index), by);
    }
}

/// The pods that match all terms, counted by the topology key of each.
fn count_affinity(terms: &[TopologyTerm], cluster: &ClusterState) -> Vec<DomainCounts> {
    let domains = terms.iter().map(|term| {
        let counts = match combine(terms, &term.topology_key) {
            Some(combined) => cluster.matching_pods(&combined),
            None => Arc::new(count_pods(terms, &term.topology_key, cluster)),
        };
        DomainCounts::new(term, cluster, counts)
    });
    domains.collect()
}

/// One term for the pods that match all terms; `None` if their namespaces cannot be combined.
fn combine(terms: &[TopologyTerm], topology_key: &str) -> Option<TopologyTerm> {
    let (first, rest) = terms.split_first()?;
    let mut combined = TopologyTerm {
        topology_key: topology_key.into(),
        ..first.clone()
    };
    for term in rest {
        combined.namespaces = combined.namespaces.intersection(&term.namespaces)?;
        combined.selector = combined.selector.and_all(&term.selector);
    }
    Some(combined)
}

/// Counts without a counter: the rare case of several terms with different namespace selectors.
fn count_pods(terms: &[TopologyTerm], topology_key: &str, cluster: &ClusterState) -> TopologyCounts {
    let mut counts = TopologyCounts::default();
    let column = cluster.topology(topology_key);
    for pod in cluster.pods() {
        if matches_all(terms, pod, cluster.namespaces())
            && let Some(node) = cluster.find_node(&pod.node)
        {
            counts.add(node.index, column.domain(node.index), 1);
        }
    }
    counts
}

/// Whether there are terms, and the pod matches all of them.
pub(super) fn matches_all(terms: &[TopologyTerm], pod: &PodInfo, namespaces: &NamespaceLabels) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matches(pod, namespaces))
}

/// The labels of the pod's namespace, and of all others if a term of the pod selects namespaces by labels.
fn namespaces_of_terms(pod: &PodInfo, namespaces: &NamespaceLabels) -> NamespaceLabels {
    let affinity = &pod.spec.affinity;
    let mut terms = affinity.required.iter().chain(&affinity.required_anti);
    if terms.any(|term| term.namespaces.depends_on_labels()) {
        return namespaces.clone();
    }
    let own = namespaces.get(pod.namespace());
    own.map(|labels| (pod.namespace().into(), labels.clone()))
        .into_iter()
        .collect()
}
