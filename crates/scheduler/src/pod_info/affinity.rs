//! Pod affinity and topology spread constraints: terms about pods on nodes with the same value of a label.

use compact_str::CompactString;
use serde::Deserialize;

use super::selector::{PodSelector, RawSelector};
use crate::state::{NamespaceSet, TopologyTerm};

/// The pod affinity and anti-affinity of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    pub required: Vec<TopologyTerm>,
    pub required_anti: Vec<TopologyTerm>,
    pub preferred: Vec<WeightedTerm>,
    pub preferred_anti: Vec<WeightedTerm>,
}

/// A term that adds its weight to the score of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WeightedTerm {
    pub weight: i32,
    pub term: TopologyTerm,
}

/// A topology spread constraint of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    pub max_skew: i32,
    pub topology_key: CompactString,
    pub when_unsatisfiable: UnsatisfiableAction,
    pub selector: PodSelector,
    /// Labels whose value in the incoming pod is added to the selector.
    pub match_label_keys: Vec<CompactString>,
    pub min_domains: i32,
    pub node_affinity_policy: NodeInclusionPolicy,
    pub node_taints_policy: NodeInclusionPolicy,
}

/// The action for a pod that does not satisfy a spread constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnsatisfiableAction {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Whether nodes that the pod cannot use count in a spread constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeInclusionPolicy {
    /// Only nodes that the pod could use count.
    Honor,
    /// All nodes count.
    Ignore,
}

impl PodAffinity {
    pub fn is_empty(&self) -> bool {
        self.required.is_empty()
            && self.required_anti.is_empty()
            && self.preferred.is_empty()
            && self.preferred_anti.is_empty()
    }
}

// The JSON of the fields.

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawPodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Vec<RawTerm>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Vec<RawWeightedTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawWeightedTerm {
    weight: i32,
    pod_affinity_term: RawTerm,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawTerm {
    label_selector: Option<RawSelector>,
    namespaces: Vec<CompactString>,
    namespace_selector: Option<RawSelector>,
    topology_key: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RawSpreadConstraint {
    max_skew: i32,
    topology_key: CompactString,
    when_unsatisfiable: CompactString,
    label_selector: Option<RawSelector>,
    match_label_keys: Vec<CompactString>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<CompactString>,
    node_taints_policy: Option<CompactString>,
}

/// The affinity of a pod in this namespace: the terms' own namespace unless they specify others.
pub(super) fn pod_affinity(namespace: &str, affinity: RawPodAffinity, anti: RawPodAffinity) -> PodAffinity {
    let terms = |raw: Vec<RawTerm>| raw.into_iter().map(|term| term.into_term(namespace)).collect();
    let weighted = |raw: Vec<RawWeightedTerm>| {
        let terms = raw.into_iter().map(|one| WeightedTerm {
            weight: one.weight,
            term: one.pod_affinity_term.into_term(namespace),
        });
        terms.collect()
    };
    PodAffinity {
        required: terms(affinity.required),
        required_anti: terms(anti.required),
        preferred: weighted(affinity.preferred),
        preferred_anti: weighted(anti.preferred),
    }
}

impl RawTerm {
    fn into_term(self, own_namespace: &str) -> TopologyTerm {
        let mut names = self.namespaces;
        if names.is_empty() && self.namespace_selector.is_none() {
            names.push(own_namespace.into());
        }
        let selector = self
            .namespace_selector
            .map(|raw| PodSelector::from_raw(Some(raw)));
        TopologyTerm {
            topology_key: self.topology_key,
            namespaces: NamespaceSet::new(names, selector),
            selector: PodSelector::from_raw(self.label_selector),
            counts_terminating: true,
        }
    }
}

impl From<RawSpreadConstraint> for TopologySpreadConstraint {
    fn from(raw: RawSpreadConstraint) -> Self {
        let policy = |text: &Option<CompactString>, default| match text.as_deref() {
            Some("Honor") => NodeInclusionPolicy::Honor,
            Some("Ignore") => NodeInclusionPolicy::Ignore,
            _ => default,
        };
        Self {
            max_skew: raw.max_skew,
            when_unsatisfiable: match raw.when_unsatisfiable.as_str() {
                "ScheduleAnyway" => UnsatisfiableAction::ScheduleAnyway,
                _ => UnsatisfiableAction::DoNotSchedule,
            },
            selector: PodSelector::from_raw(raw.label_selector),
            match_label_keys: raw.match_label_keys,
            min_domains: raw.min_domains.unwrap_or(1),
            node_affinity_policy: policy(&raw.node_affinity_policy, NodeInclusionPolicy::Honor),
            node_taints_policy: policy(&raw.node_taints_policy, NodeInclusionPolicy::Ignore),
            topology_key: raw.topology_key,
        }
    }
}
