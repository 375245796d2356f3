//! Cluster events, by which the queue decides which unschedulable pods to try again.

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use setpoint_api::Stored;

use crate::pod_info::PodInfo;
use crate::state::NodeChange;

/// The type of object that an event is about (upstream: `EventResource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventResource {
    Node,
    /// A pod on a node.
    AssignedPod,
    /// The unschedulable pod itself.
    TargetPod,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
    ResourceClaim,
    ResourceSlice,
    DeviceClass,
}

/// Actions on objects, as a set of bits (upstream: `ActionType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ActionType(u32);

/// Events of one resource and some actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterEvent {
    pub resource: EventResource,
    pub action: ActionType,
}

/// The change that an event reports.
#[derive(Debug, Clone)]
pub enum EventChange {
    Node(NodeChange),
    /// A pod on a node, or the unschedulable pod: its version before and after.
    Pod {
        old: Option<Arc<PodInfo>>,
        new: Option<Arc<PodInfo>>,
    },
    /// Any other object: its version before and after.
    Object {
        old: Option<Arc<Stored>>,
        new: Option<Arc<Stored>>,
    },
}

/// What an event means for an unschedulable pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueingHint {
    /// It may make the pod schedulable.
    Queue,
    /// It cannot.
    Skip,
}

impl ActionType {
    pub const ADD: Self = Self(1);
    pub const DELETE: Self = Self(1 << 1);
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(1 << 2);
    pub const UPDATE_NODE_LABEL: Self = Self(1 << 3);
    pub const UPDATE_NODE_TAINT: Self = Self(1 << 4);
    pub const UPDATE_NODE_CONDITION: Self = Self(1 << 5);
    pub const UPDATE_NODE_ANNOTATION: Self = Self(1 << 6);
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(1 << 7);
    pub const UPDATE_POD_LABEL: Self = Self(1 << 8);
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(1 << 9);
    pub const UPDATE_POD_TOLERATION: Self = Self(1 << 10);
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(1 << 11);
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(1 << 12);
    /// Any other update.
    pub const UPDATE_OTHER: Self = Self(1 << 13);
    pub const UPDATE: Self = Self(((1 << 14) - 1) & !0b11);
    pub const ALL: Self = Self((1 << 14) - 1);
    pub const NONE: Self = Self(0);

    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for ActionType {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The name of an event in metrics (upstream: `ClusterEvent.Label`): a resource and an action, or one name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventLabel(&'static str, &'static str);

impl EventLabel {
    pub(crate) const UNSCHEDULED_POD_ADD: Self = Self("UnscheduledPod", "Add");
    pub(crate) const UNSCHEDULED_POD_UPDATE: Self = Self("UnscheduledPod", "Update");
    pub(crate) const UNSCHEDULED_POD_DELETE: Self = Self("UnscheduledPod", "Delete");
    /// An attempt failed, and the pod goes back to a queue.
    pub(crate) const SCHEDULE_ATTEMPT_FAILURE: Self = Self("ScheduleAttemptFailure", "");
    pub(crate) const BACKOFF_COMPLETE: Self = Self("BackoffComplete", "");
    /// A pod in backoff is tried early, since nothing else is to do.
    pub(crate) const POP_FROM_BACKOFF: Self = Self("PopFromBackoffQ", "");
    /// What a plugin did for an unschedulable pod failed.
    pub(crate) const FORCE_ACTIVATE: Self = Self("ForceActivate", "");
    pub(crate) const UNSCHEDULABLE_TIMEOUT: Self = Self("UnschedulableTimeout", "");
}

impl fmt::Display for EventLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.1)
    }
}

impl EventResource {
    fn label(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::AssignedPod => "AssignedPod",
            Self::TargetPod => "TargetPod",
            Self::Namespace => "Namespace",
            Self::PersistentVolume => "PersistentVolume",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::StorageClass => "storage.k8s.io/StorageClass",
            Self::CsiNode => "storage.k8s.io/CSINode",
            Self::CsiDriver => "storage.k8s.io/CSIDriver",
            Self::CsiStorageCapacity => "storage.k8s.io/CSIStorageCapacity",
            Self::VolumeAttachment => "storage.k8s.io/VolumeAttachment",
            Self::ResourceClaim => "resource.k8s.io/ResourceClaim",
            Self::ResourceSlice => "resource.k8s.io/ResourceSlice",
            Self::DeviceClass => "resource.k8s.io/DeviceClass",
        }
    }
}

impl ActionType {
    /// The name of the action. Upstream has one event for each change of an object; several changes at once are an update.
    fn label(self) -> &'static str {
        match self {
            Self::ADD => "Add",
            Self::DELETE => "Delete",
            Self::UPDATE_NODE_ALLOCATABLE => "UpdateNodeAllocatable",
            Self::UPDATE_NODE_LABEL => "UpdateNodeLabel",
            Self::UPDATE_NODE_TAINT => "UpdateNodeTaint",
            Self::UPDATE_NODE_CONDITION => "UpdateNodeCondition",
            Self::UPDATE_NODE_ANNOTATION => "UpdateNodeAnnotation",
            Self::UPDATE_NODE_DECLARED_FEATURE => "UpdateNodeDeclaredFeature",
            Self::UPDATE_POD_LABEL => "UpdatePodLabel",
            Self::UPDATE_POD_SCALE_DOWN => "UpdatePodScaleDown",
            Self::UPDATE_POD_TOLERATION => "UpdatePodToleration",
            Self::UPDATE_POD_SCHEDULING_GATES_ELIMINATED => "UpdatePodSchedulingGatesEliminated",
            Self::UPDATE_POD_GENERATED_RESOURCE_CLAIM => "UpdatePodGeneratedResourceClaim",
            Self::ALL => "All",
            _ => "Update",
        }
    }
}

impl ClusterEvent {
    pub const fn new(resource: EventResource, action: ActionType) -> Self {
        Self { resource, action }
    }

    /// The name in metrics.
    pub(crate) fn label(self) -> EventLabel {
        EventLabel(self.resource.label(), self.action.label())
    }

    /// Whether the event is one of these.
    pub fn is_in(self, registered: Self) -> bool {
        self.resource == registered.resource && self.action.intersects(registered.action)
    }
}

impl QueueingHint {
    pub fn queue_if(may_help: bool) -> Self {
        match may_help {
            true => Self::Queue,
            false => Self::Skip,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resource: EventResource, action: ActionType, expected: &str) {
        assert_eq!(ClusterEvent::new(resource, action).label().to_string(), expected);
    }

    #[test]
    fn labels_are_those_of_upstream() {
        check(EventResource::Node, ActionType::ADD, "NodeAdd");
        check(
            EventResource::Node,
            ActionType::UPDATE_NODE_TAINT,
            "NodeUpdateNodeTaint",
        );
        check(
            EventResource::AssignedPod,
            ActionType::DELETE,
            "AssignedPodDelete",
        );
        check(
            EventResource::CsiNode,
            ActionType::UPDATE,
            "storage.k8s.io/CSINodeUpdate",
        );
        let both = ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_TAINT;
        check(EventResource::Node, both, "NodeUpdate");
        assert_eq!(EventLabel::BACKOFF_COMPLETE.to_string(), "BackoffComplete");
    }
}
