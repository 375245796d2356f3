//! Events that may make a pod schedulable which PodTopologySpread rejected.

use super::PodTopologySpread;
use super::constraint::{Constraint, has_all_keys};
use crate::framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventChange, EventResource, QueueingHint,
};
use crate::pod_info::PodInfo;
use crate::pod_info::affinity::UnsatisfiableAction;
use crate::state::NodeChange;

impl EnqueueExtensions for PodTopologySpread {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let pod = ActionType::ADD | ActionType::UPDATE_POD_LABEL | ActionType::DELETE;
        let target = ActionType::UPDATE_POD_LABEL | ActionType::UPDATE_POD_TOLERATION;
        let node = ActionType::ADD
            | ActionType::DELETE
            | ActionType::UPDATE_NODE_LABEL
            | ActionType::UPDATE_NODE_TAINT;
        vec![
            ClusterEvent::new(EventResource::AssignedPod, pod),
            ClusterEvent::new(EventResource::TargetPod, target),
            ClusterEvent::new(EventResource::Node, node),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        let constraints = self.constraints(pod, UnsatisfiableAction::DoNotSchedule);
        match (event.resource, change) {
            (EventResource::AssignedPod, EventChange::Pod { old, new }) => {
                let selects = |other: &PodInfo, one: &Constraint| {
                    other.namespace() == pod.namespace() && one.selector.matches(&other.labels)
                };
                let is_selected = |other: Option<&PodInfo>, one: &Constraint| {
                    other.is_some_and(|other| selects(other, one))
                };
                let mut constraints = constraints.iter();
                QueueingHint::queue_if(
                    constraints
                        .any(|one| is_selected(old.as_deref(), one) != is_selected(new.as_deref(), one)),
                )
            }
            (EventResource::Node, EventChange::Node(change)) => {
                QueueingHint::queue_if(node_helps(&constraints, change))
            }
            _ => QueueingHint::Queue,
        }
    }
}

/// Whether the node is or was in a domain of the constraints, and that or its taints changed.
fn node_helps(constraints: &[Constraint], change: &NodeChange) -> bool {
    let has_keys = |node: &Option<_>| {
        let node: Option<&std::sync::Arc<crate::state::NodeProperties>> = node.as_ref();
        node.is_some_and(|node| has_all_keys(constraints, |key| node.label(key).is_some()))
    };
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => {
            let mut keys = constraints.iter().map(|one| one.topology_key.as_str());
            has_keys(&change.old) != has_keys(&change.new)
                || (has_keys(&change.new)
                    && (keys.any(|key| old.label(key) != new.label(key)) || old.taints != new.taints))
        }
        _ => has_keys(&change.old) || has_keys(&change.new),
    }
}
