//! NodeName: a pod that names its node fits no other.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, CycleState, Dependency, EnqueueExtensions, EventResource, Filter, Handle,
    Plugin, PreFilter, PreFilterResult, Registration, Rejection, Sign,
};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeRef};

#[derive(Debug)]
pub(super) struct NodeName;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        pre_filter: Some(Arc::new(NodeName)),
        filter: Some(Arc::new(NodeName)),
        enqueue: Some(Arc::new(NodeName)),
        sign: Some(Arc::new(NodeName)),
        ..Registration::new(NodeName.name())
    })
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }
}

impl PreFilter for NodeName {
    fn pre_filter(
        &self,
        _: &mut CycleState,
        pod: &PodInfo,
        _: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        Ok(match pod.node.is_empty() {
            true => PreFilterResult::Skip,
            false => PreFilterResult::Nodes([pod.node.clone()].into()),
        })
    }
}

impl Filter for NodeName {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        match pod.node.is_empty() || pod.node == node.name() {
            true => Ok(()),
            false => Err(Rejection::unresolvable(
                "node(s) didn't match the requested node name",
            )),
        }
    }
}

impl EnqueueExtensions for NodeName {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::new(EventResource::Node, ActionType::ADD)]
    }
}

impl Sign for NodeName {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        match pod.node.is_empty() {
            true => Dependency::Node,
            false => Dependency::Cluster,
        }
    }
}
