//! The constraints of a pod, with selectors resolved: its own, or the defaults for the pods of its workload.

use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::selector::{Operator, Requirement};

use super::PodTopologySpread;
use crate::plugins::node_affinity;
use crate::pod_info::PodInfo;
use crate::pod_info::affinity::{NodeInclusionPolicy, TopologySpreadConstraint, UnsatisfiableAction};
use crate::pod_info::selector::PodSelector;
use crate::state::{ClusterState, NamespaceSet, NodeRef, TopologyCounts, TopologyTerm};

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A constraint of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constraint {
    pub(super) max_skew: i64,
    pub(super) topology_key: CompactString,
    pub(super) selector: PodSelector,
    pub(super) min_domains: usize,
    node_affinity_policy: NodeInclusionPolicy,
    node_taints_policy: NodeInclusionPolicy,
}

impl PodTopologySpread {
    /// The pod's constraints with this action; the defaults if it has none at all.
    pub(super) fn constraints(&self, pod: &PodInfo, action: UnsatisfiableAction) -> Vec<Constraint> {
        let own = &pod.spec.topology_spread_constraints;
        if !own.is_empty() {
            let selected = own.iter().filter(|one| one.when_unsatisfiable == action);
            return selected.map(|one| Constraint::of_pod(one, pod)).collect();
        }
        let defaults = self
            .defaults
            .iter()
            .filter(|one| one.when_unsatisfiable == action);
        let mut constraints: Vec<Constraint> = defaults.map(|one| Constraint::of_pod(one, pod)).collect();
        if constraints.is_empty() {
            return constraints;
        }
        let selector = self.workloads.selector(pod);
        if selector.is_everything() {
            return Vec::new();
        }
        for constraint in &mut constraints {
            constraint.selector = selector.clone();
        }
        constraints
    }
}

impl Constraint {
    fn of_pod(constraint: &TopologySpreadConstraint, pod: &PodInfo) -> Self {
        let mut selector = constraint.selector.clone();
        for label in &constraint.match_label_keys {
            if let Some(value) = pod.label(label) {
                selector = selector.and(Requirement {
                    label: label.clone(),
                    operator: Operator::In(vec![value.into()]),
                });
            }
        }
        Self {
            max_skew: i64::from(constraint.max_skew),
            topology_key: constraint.topology_key.clone(),
            selector,
            min_domains: usize::try_from(constraint.min_domains).unwrap_or(1),
            node_affinity_policy: constraint.node_affinity_policy,
            node_taints_policy: constraint.node_taints_policy,
        }
    }

    /// Whether the node counts for the pod, by the node inclusion policies.
    pub(super) fn includes(&self, pod: &PodInfo, node: NodeRef<'_>) -> bool {
        let properties = node.properties();
        if self.node_affinity_policy == NodeInclusionPolicy::Honor
            && !node_affinity::matches_pod(pod, node.name(), properties)
        {
            return false;
        }
        let is_tolerated = |taint: &crate::pod_info::Toleration| {
            !matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute") || pod.tolerates(taint)
        };
        self.node_taints_policy == NodeInclusionPolicy::Ignore || properties.taints.iter().all(is_tolerated)
    }

    /// The pods in the pod's namespace that the constraint selects. A selector that matches everything counts nothing, as
    /// upstream.
    pub(super) fn matching_pods(&self, pod: &PodInfo, cluster: &ClusterState) -> Arc<TopologyCounts> {
        if self.selector.is_everything() {
            return Arc::default();
        }
        let term = TopologyTerm {
            topology_key: self.topology_key.clone(),
            namespaces: NamespaceSet::new(vec![pod.namespace().into()], None),
            selector: self.selector.clone(),
            counts_terminating: false,
        };
        cluster.matching_pods(&term)
    }
}

/// Whether the node has the topology keys of all constraints.
pub(super) fn has_all_keys(constraints: &[Constraint], label: impl Fn(&str) -> bool) -> bool {
    constraints.iter().all(|one| label(&one.topology_key))
}

/// The built-in defaults (upstream: `systemDefaultConstraints`).
pub(super) fn system_defaults() -> Vec<TopologySpreadConstraint> {
    let constraint = |topology_key: &str, max_skew| TopologySpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable: UnsatisfiableAction::ScheduleAnyway,
        selector: PodSelector::nothing(),
        match_label_keys: Vec::new(),
        min_domains: 1,
        node_affinity_policy: NodeInclusionPolicy::Honor,
        node_taints_policy: NodeInclusionPolicy::Ignore,
    };
    vec![constraint(HOSTNAME, 3), constraint(ZONE, 5)]
}
