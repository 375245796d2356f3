//! NodeUnschedulable: no pod is scheduled to a cordoned node, except those that tolerate its unschedulable taint.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, Plugin, QueueingHint, Registration, Rejection, Sign,
};
use crate::pod_info::{PodInfo, Toleration};
use crate::state::{ClusterState, NodeRef};

#[derive(Debug)]
pub(super) struct NodeUnschedulable;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        filter: Some(Arc::new(NodeUnschedulable)),
        enqueue: Some(Arc::new(NodeUnschedulable)),
        sign: Some(Arc::new(NodeUnschedulable)),
        ..Registration::new(NodeUnschedulable.name())
    })
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        if !node.properties().unschedulable || pod.tolerates(&unschedulable_taint()) {
            return Ok(());
        }
        Err(Rejection::unresolvable("node(s) were unschedulable"))
    }
}

impl EnqueueExtensions for NodeUnschedulable {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(
                EventResource::Node,
                ActionType::ADD | ActionType::UPDATE_NODE_TAINT,
            ),
            ClusterEvent::new(EventResource::TargetPod, ActionType::UPDATE_POD_TOLERATION),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, _: ClusterEvent, change: &EventChange) -> QueueingHint {
        let helps = match change {
            EventChange::Node(change) => {
                let was_closed = change.old.as_ref().is_none_or(|node| node.unschedulable);
                was_closed && change.new.as_ref().is_some_and(|node| !node.unschedulable)
            }
            EventChange::Pod { .. } => pod.tolerates(&unschedulable_taint()),
            EventChange::Object { .. } => true,
        };
        QueueingHint::queue_if(helps)
    }
}

impl Sign for NodeUnschedulable {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

/// The taint that a cordoned node is taken to have.
fn unschedulable_taint() -> Toleration {
    Toleration {
        key: "node.kubernetes.io/unschedulable".into(),
        effect: "NoSchedule".into(),
        ..Toleration::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster_of, filter_reasons, pod, with_spec};

    #[track_caller]
    fn check(unschedulable: bool, tolerations: &[Toleration], expected: &str) {
        let pod = with_spec(pod("p", ""), |spec| spec.tolerations = tolerations.to_vec());
        let cluster = cluster_of("n", json!({"spec": {"unschedulable": unschedulable}}));
        assert_eq!(filter_reasons(&NodeUnschedulable, &pod, &cluster), expected);
    }

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
        check(false, &[], "");
        check(true, &[], "node(s) were unschedulable");
        check(true, &[unschedulable_taint()], "");
    }
}
