//! Events that may make a pod schedulable which InterPodAffinity rejected.

use super::InterPodAffinity;
use super::filter::matches_all;
use crate::framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventChange, EventResource, QueueingHint,
};
use crate::pod_info::PodInfo;
use crate::state::{NamespaceLabels, NodeChange, TopologyTerm};

impl EnqueueExtensions for InterPodAffinity {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let pod = ActionType::ADD | ActionType::UPDATE_POD_LABEL | ActionType::DELETE;
        let node = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        vec![
            ClusterEvent::new(EventResource::AssignedPod, pod),
            ClusterEvent::new(EventResource::TargetPod, ActionType::UPDATE_POD_LABEL),
            ClusterEvent::new(EventResource::Node, node),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        match (event.resource, change) {
            (EventResource::AssignedPod, EventChange::Pod { old, new }) => {
                QueueingHint::queue_if(helps(pod, old.as_deref(), new.as_deref()))
            }
            (EventResource::Node, EventChange::Node(change)) => {
                QueueingHint::queue_if(node_helps(pod, change))
            }
            _ => QueueingHint::Queue,
        }
    }
}

/// Whether a change of an assigned pod may help: it matches all affinity terms now, or no anti-affinity term any more.
fn helps(pod: &PodInfo, old: Option<&PodInfo>, new: Option<&PodInfo>) -> bool {
    let affinity = &pod.spec.affinity;
    // Labels of namespaces are not known here: a term that selects by them is assumed to match.
    let required = |other: &PodInfo| selects_by_namespace_labels(&affinity.required) || all(pod, other);
    let excludes = |other: &PodInfo| {
        selects_by_namespace_labels(&affinity.required_anti) || any(&affinity.required_anti, other)
    };
    let excluded = |other: &PodInfo| {
        let terms = &other.spec.affinity.required_anti;
        selects_by_namespace_labels(terms) || any(terms, pod)
    };
    match (old, new) {
        (Some(old), Some(new)) => {
            (!all(pod, old) && required(new)) || (excludes(old) && !any(&affinity.required_anti, new))
        }
        (None, Some(new)) => required(new),
        (Some(old), None) => excludes(old) || excluded(old),
        (None, None) => false,
    }
}

fn all(pod: &PodInfo, other: &PodInfo) -> bool {
    matches_all(&pod.spec.affinity.required, other, &NamespaceLabels::new())
}

fn any(terms: &[TopologyTerm], other: &PodInfo) -> bool {
    let namespaces = NamespaceLabels::new();
    terms.iter().any(|term| term.matches(other, &namespaces))
}

fn selects_by_namespace_labels(terms: &[TopologyTerm]) -> bool {
    terms.iter().any(|term| term.namespaces.depends_on_labels())
}

/// Whether a node joined a domain of an affinity term, or left one of an anti-affinity term.
fn node_helps(pod: &PodInfo, change: &NodeChange) -> bool {
    let old = |key: &str| change.old.as_ref().and_then(|node| node.label(key));
    let new = |key: &str| change.new.as_ref().and_then(|node| node.label(key));
    let affinity = &pod.spec.affinity;
    let joins = affinity.required.iter().any(|term| {
        let key = &term.topology_key;
        new(key).is_some() && old(key) != new(key)
    });
    let leaves = affinity.required_anti.iter().any(|term| {
        let key = &term.topology_key;
        change.old.is_none() || (old(key).is_some() && old(key) != new(key))
    });
    joins || leaves
}
