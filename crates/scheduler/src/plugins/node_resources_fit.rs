//! NodeResourcesFit: a pod fits where its requests and those of the pods on the node stay within the allocatable
//! resources; the score is by the profile's strategy, LeastAllocated by default.

mod strategy;

use std::collections::BTreeSet;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;

use self::strategy::{ScoringStrategy, Strategy};
use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, Code, CycleState, Dependency, EnqueueExtensions, EventChange, EventResource,
    Filter, Handle, Plugin, QueueingHint, Registration, Rejection, Score, Sign,
};
use crate::pod_info::PodInfo;
use crate::resources::Resources;
use crate::state::{ClusterState, NodeProperties, NodeRef};

#[derive(Debug)]
pub(super) struct NodeResourcesFit {
    ignored_resources: BTreeSet<CompactString>,
    ignored_resource_groups: BTreeSet<CompactString>,
    strategy: Strategy,
}

/// Its arguments (upstream: `NodeResourcesFitArgs`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeResourcesFitArgs {
    ignored_resources: BTreeSet<CompactString>,
    ignored_resource_groups: BTreeSet<CompactString>,
    scoring_strategy: ScoringStrategy,
}

pub(super) fn build(args: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    let args: NodeResourcesFitArgs = args.decode()?;
    let plugin = Arc::new(NodeResourcesFit {
        ignored_resources: args.ignored_resources,
        ignored_resource_groups: args.ignored_resource_groups,
        strategy: Strategy::new(args.scoring_strategy)?,
    });
    Ok(Registration {
        filter: Some(plugin.clone()),
        score: Some(plugin.clone()),
        enqueue: Some(plugin.clone()),
        sign: Some(plugin),
        ..Registration::new("NodeResourcesFit")
    })
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let requests = &pod.spec.requests;
        let (milli_cpu, memory, ephemeral_storage) = node.free();
        let fits = |request: i64, free: i64| request == 0 || request <= free;
        if has_pod_slot(node)
            && fits(requests.milli_cpu, milli_cpu)
            && fits(requests.memory, memory)
            && fits(requests.ephemeral_storage, ephemeral_storage)
            && requests.scalar_resources.is_empty()
        {
            return Ok(());
        }
        self.check_each(requests, node)
    }
}

impl Score for NodeResourcesFit {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> i64 {
        self.strategy.score(pod, node)
    }
}

impl EnqueueExtensions for NodeResourcesFit {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![
            ClusterEvent::new(
                EventResource::AssignedPod,
                ActionType::DELETE | ActionType::UPDATE_POD_SCALE_DOWN,
            ),
            ClusterEvent::new(EventResource::TargetPod, ActionType::UPDATE_POD_SCALE_DOWN),
            ClusterEvent::new(
                EventResource::Node,
                ActionType::ADD | ActionType::UPDATE_NODE_ALLOCATABLE,
            ),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        match change {
            EventChange::Node(change) => {
                let helps = change.new.as_ref().is_some_and(|new| {
                    fits_empty(pod, new) && change.old.as_ref().is_none_or(|old| has_grown(pod, old, new))
                });
                QueueingHint::queue_if(helps)
            }
            EventChange::Pod { old, new } if event.action.intersects(ActionType::UPDATE_POD_SCALE_DOWN) => {
                let (Some(old), Some(new)) = (old, new) else {
                    return QueueingHint::Queue;
                };
                let requested = pod.spec.requests.names();
                let mut freed =
                    requested.filter(|name| old.spec.requests.amount(name) > new.spec.requests.amount(name));
                QueueingHint::queue_if(event.resource == EventResource::TargetPod || freed.next().is_some())
            }
            _ => QueueingHint::Queue,
        }
    }
}

impl Sign for NodeResourcesFit {
    fn dependency(&self, _: &PodInfo, _: &ClusterState) -> Dependency {
        Dependency::Node
    }
}

impl NodeResourcesFit {
    /// Compares each resource, and collects the reasons.
    fn check_each(&self, requests: &Resources, node: NodeRef<'_>) -> Result<(), Rejection> {
        let mut code = Code::Unschedulable;
        let mut reasons = Vec::new();
        if !has_pod_slot(node) {
            reasons.push("Too many pods".into());
        }
        for name in requests.names().filter(|name| !self.is_ignored(name)) {
            let (request, allocatable) = (requests.amount(name), node.allocatable(name));
            if request > allocatable - node.requested(name) {
                reasons.push(insufficient(name));
                if request > allocatable {
                    code = Code::UnschedulableAndUnresolvable;
                }
            }
        }
        let mut reasons = reasons.into_iter();
        match reasons.next() {
            None => Ok(()),
            Some(first) => Err(reasons.fold(Rejection::new(code, first), Rejection::and)),
        }
    }

    fn is_ignored(&self, name: &str) -> bool {
        let group = name.split_once('/').map(|(group, _)| group);
        self.ignored_resources.contains(name)
            || group.is_some_and(|group| self.ignored_resource_groups.contains(group))
    }
}

fn has_pod_slot(node: NodeRef<'_>) -> bool {
    i64::try_from(node.pods().len()).is_ok_and(|pods| pods < node.max_pods())
}

/// Kubernetes' reason; static for the resources of nearly all pods.
fn insufficient(name: &str) -> std::borrow::Cow<'static, str> {
    match name {
        "cpu" => "Insufficient cpu".into(),
        "memory" => "Insufficient memory".into(),
        "ephemeral-storage" => "Insufficient ephemeral-storage".into(),
        _ => format!("Insufficient {name}").into(),
    }
}

/// Whether the pod would fit the node without any other pod.
fn fits_empty(pod: &PodInfo, node: &NodeProperties) -> bool {
    let requests = &pod.spec.requests;
    node.max_pods > 0
        && requests
            .names()
            .all(|name| requests.amount(name) <= node.allocatable.amount(name))
}

/// Whether the node has more of something that the pod requests.
fn has_grown(pod: &PodInfo, old: &NodeProperties, new: &NodeProperties) -> bool {
    let mut names = pod.spec.requests.names();
    new.max_pods > old.max_pods
        || names.any(|name| new.allocatable.amount(name) > old.allocatable.amount(name))
}

#[cfg(test)]
mod tests;
