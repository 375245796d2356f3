//! NodeDeclaredFeatures: a pod whose fields need a feature of the node fits only nodes that declare it.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource, Filter,
    Handle, Plugin, PreFilter, PreFilterResult, QueueingHint, Registration, Rejection, Sign,
};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeRef};

#[derive(Debug)]
pub(super) struct NodeDeclaredFeatures;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        pre_filter: Some(Arc::new(NodeDeclaredFeatures)),
        filter: Some(Arc::new(NodeDeclaredFeatures)),
        enqueue: Some(Arc::new(NodeDeclaredFeatures)),
        sign: Some(Arc::new(NodeDeclaredFeatures)),
        ..Registration::new(NodeDeclaredFeatures.name())
    })
}

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        "NodeDeclaredFeatures"
    }
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        Ok(match pod.spec.required_features.is_empty() {
            true => PreFilterResult::Skip,
            false => PreFilterResult::AllNodes,
        })
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let declared = &node.properties().declared_features;
        let mut required = pod.spec.required_features.iter();
        match required.all(|feature| declared.binary_search(feature).is_ok()) {
            true => Ok(()),
            false => Err(Rejection::unresolvable(
                "node(s) didn't match Pod's required features",
            )),
        }
    }
}

impl EnqueueExtensions for NodeDeclaredFeatures {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(
                EventResource::Node,
                ActionType::ADD | ActionType::UPDATE_NODE_DECLARED_FEATURE,
            ),
            ClusterEvent::new(EventResource::TargetPod, ActionType::UPDATE),
        ]
    }

    fn queueing_hint(&self, _: &PodInfo, _: ClusterEvent, change: &EventChange) -> QueueingHint {
        let helps = match change {
            EventChange::Node(change) => {
                let features = |node: &Option<Arc<crate::state::NodeProperties>>| {
                    node.as_ref().map(|node| node.declared_features.clone())
                };
                features(&change.old) != features(&change.new)
            }
            EventChange::Pod { old, new } => {
                let features =
                    |pod: &Option<Arc<PodInfo>>| pod.as_ref().map(|pod| pod.spec.required_features.clone());
                features(old) != features(new)
            }
            EventChange::Object { .. } => true,
        };
        QueueingHint::queue_if(helps)
    }
}

impl Sign for NodeDeclaredFeatures {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::{cluster_of, filter_reasons, pod_from};

    #[track_caller]
    fn check(declared: &[&str], expected: &str) {
        let pod = pod_from(json!({"spec": {"hostNetwork": true, "hostUsers": false}}));
        let cluster = cluster_of("n", json!({"status": {"declaredFeatures": declared}}));
        assert_eq!(filter_reasons(&NodeDeclaredFeatures, &pod, &cluster), expected);
    }

    #[test]
    fn the_node_must_declare_the_feature() {
        check(&["UserNamespacesHostNetworkSupport"], "");
        check(&["Other"], "node(s) didn't match Pod's required features");
    }
}
