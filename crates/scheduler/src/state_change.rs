//! The actions of a change of a pod or a node, by which the queue selects the pods that it may help.

use crate::framework::ActionType;
use crate::pod_info::PodInfo;
use crate::state::{NodeChange, NodeProperties};

/// What changed in a pod that waits for a node.
pub(crate) fn target_pod_actions(old: &PodInfo, new: &PodInfo) -> ActionType {
    let gates_gone = !old.scheduling_gates.is_empty() && new.scheduling_gates.is_empty();
    any([
        (gates_gone, ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (
            old.resource_claims != new.resource_claims,
            ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        ),
        (
            old.spec.tolerations != new.spec.tolerations,
            ActionType::UPDATE_POD_TOLERATION,
        ),
        (old.labels != new.labels, ActionType::UPDATE_POD_LABEL),
        (is_smaller(old, new), ActionType::UPDATE_POD_SCALE_DOWN),
        (old.spec != new.spec, ActionType::UPDATE_OTHER),
    ])
}

/// What changed in a pod on a node.
pub(crate) fn assigned_pod_actions(old: &PodInfo, new: &PodInfo) -> ActionType {
    any([
        (old.labels != new.labels, ActionType::UPDATE_POD_LABEL),
        (is_smaller(old, new), ActionType::UPDATE_POD_SCALE_DOWN),
    ])
}

/// What changed in a node.
pub(crate) fn node_actions(change: &NodeChange) -> ActionType {
    match (&change.old, &change.new) {
        (None, _) => ActionType::ADD,
        (_, None) => ActionType::DELETE,
        (Some(old), Some(new)) => node_updates(old, new),
    }
}

fn node_updates(old: &NodeProperties, new: &NodeProperties) -> ActionType {
    let has_other_resources = old.allocatable != new.allocatable || old.max_pods != new.max_pods;
    let has_other_taints = old.taints != new.taints || old.unschedulable != new.unschedulable;
    any([
        (has_other_resources, ActionType::UPDATE_NODE_ALLOCATABLE),
        (old.labels != new.labels, ActionType::UPDATE_NODE_LABEL),
        (has_other_taints, ActionType::UPDATE_NODE_TAINT),
        (
            old.annotations != new.annotations,
            ActionType::UPDATE_NODE_ANNOTATION,
        ),
        (
            old.declared_features != new.declared_features,
            ActionType::UPDATE_NODE_DECLARED_FEATURE,
        ),
    ])
}

fn is_smaller(old: &PodInfo, new: &PodInfo) -> bool {
    let requests = &old.spec.requests;
    requests
        .names()
        .any(|name| new.spec.requests.amount(name) < requests.amount(name))
}

fn any<const N: usize>(actions: [(bool, ActionType); N]) -> ActionType {
    let changed = actions.into_iter().filter(|(changed, _)| *changed);
    changed.fold(ActionType::NONE, |all, (_, action)| all | action)
}
