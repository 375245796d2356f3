//! NodeResourcesFit: a pod fits where its requests and those of the pods on the node stay within the allocatable
//! resources; the score is by the profile's strategy, LeastAllocated by default.

mod strategy;

use std::collections::BTreeSet;
use std::sync::Arc;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Stored;

use self::strategy::{ScoringStrategy, Strategy};
use super::device_classes::{DeviceClasses, IMPLICIT_PREFIX, ResourceClass};
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
    /// Resources that they back, and of which a node has none, are for DynamicResources to check.
    classes: DeviceClasses,
}

/// Its arguments (upstream: `NodeResourcesFitArgs`).
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeResourcesFitArgs {
    ignored_resources: BTreeSet<CompactString>,
    ignored_resource_groups: BTreeSet<CompactString>,
    scoring_strategy: ScoringStrategy,
}

pub(super) fn build(args: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let args: NodeResourcesFitArgs = args.decode()?;
    let plugin = Arc::new(NodeResourcesFit {
        ignored_resources: args.ignored_resources,
        ignored_resource_groups: args.ignored_resource_groups,
        strategy: Strategy::new(args.scoring_strategy)?,
        classes: DeviceClasses::new(handle),
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
            ClusterEvent::new(EventResource::DeviceClass, ActionType::ADD | ActionType::UPDATE),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        match change {
            EventChange::Node(change) => {
                let helps = change.new.as_ref().is_some_and(|new| {
                    self.fits_empty(pod, new)
                        && change
                            .old
                            .as_ref()
                            .is_none_or(|old| self.has_grown(pod, old, new))
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
            EventChange::Object { old, new } if event.resource == EventResource::DeviceClass => {
                QueueingHint::queue_if(backs_more(pod, old.as_deref(), new.as_deref()))
            }
            _ => QueueingHint::Queue,
        }
    }
}

impl Sign for NodeResourcesFit {
    fn dependency(&self, pod: &PodInfo, _: &ClusterState) -> Dependency {
        let mut resources = pod.spec.requests.scalar_resources.iter();
        let mut is_backed = || resources.any(|(name, _)| self.classes.find(name).is_some());
        match pod.spec.has_extended_resources() && is_backed() {
            true => Dependency::Cluster,
            false => Dependency::Node,
        }
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
            if self.is_left_to_classes(name, allocatable) {
                continue;
            }
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

    /// Whether the node has none of the resource, and a DeviceClass backs it.
    fn is_left_to_classes(&self, name: &str, allocatable: i64) -> bool {
        allocatable == 0 && name.contains('/') && self.classes.find(name).is_some()
    }

    /// Whether the pod would fit the node without any other pod.
    fn fits_empty(&self, pod: &PodInfo, node: &NodeProperties) -> bool {
        let requests = &pod.spec.requests;
        node.max_pods > 0
            && requests.names().all(|name| {
                let allocatable = node.allocatable.amount(name);
                requests.amount(name) <= allocatable || self.is_left_to_classes(name, allocatable)
            })
    }

    /// Whether the node has more of something that the pod requests, or may have devices instead.
    fn has_grown(&self, pod: &PodInfo, old: &NodeProperties, new: &NodeProperties) -> bool {
        let mut names = pod.spec.requests.names();
        new.max_pods > old.max_pods
            || names.any(|name| {
                let allocatable = new.allocatable.amount(name);
                allocatable > old.allocatable.amount(name) || self.is_left_to_classes(name, allocatable)
            })
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

/// Whether a DeviceClass that was added or changed backs a resource that the pod requests, and did not before.
fn backs_more(pod: &PodInfo, old: Option<&Stored>, new: Option<&Stored>) -> bool {
    let Some(new) = new else {
        return false;
    };
    let resource = |class: &Stored| {
        let view = class.view::<ResourceClass>().ok()?;
        view.resource().map(CompactString::from)
    };
    let requests = |name: &str| pod.spec.requests.amount(name) > 0;
    let named = resource(new);
    let was_named = old.and_then(resource);
    let is_implicit = old.is_none() && requests(&format!("{IMPLICIT_PREFIX}{}", new.key().name()));
    is_implicit || named != was_named && named.is_some_and(|name| requests(&name))
}

#[cfg(test)]
mod tests;
