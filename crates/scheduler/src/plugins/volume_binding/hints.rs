//! Events that may make a pod schedulable which VolumeBinding rejected.

use super::VolumeBinding;
use crate::framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventChange, EventResource, QueueingHint,
};
use crate::plugins::storage::{StorageCapacity, is_claim_of};
use crate::pod_info::PodInfo;

impl EnqueueExtensions for VolumeBinding {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let change = ActionType::ADD | ActionType::UPDATE;
        let node = ActionType::ADD | ActionType::UPDATE_NODE_LABEL;
        vec![
            ClusterEvent::new(EventResource::StorageClass, change),
            ClusterEvent::new(EventResource::PersistentVolumeClaim, change),
            ClusterEvent::new(EventResource::PersistentVolume, change),
            ClusterEvent::new(EventResource::Node, node),
            ClusterEvent::new(EventResource::CsiNode, change),
            ClusterEvent::new(EventResource::CsiDriver, ActionType::UPDATE),
            ClusterEvent::new(EventResource::CsiStorageCapacity, change),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        let EventChange::Object { old, new: Some(new) } = change else {
            return QueueingHint::Queue;
        };
        match (event.resource, old) {
            (EventResource::PersistentVolumeClaim, _) => QueueingHint::queue_if(is_claim_of(pod, new)),
            (EventResource::CsiStorageCapacity, Some(old)) => {
                let limit = |object: &setpoint_api::Stored| {
                    let view = object.view::<StorageCapacity>().ok();
                    view.and_then(|view| view.limit())
                };
                QueueingHint::queue_if(limit(new) > limit(old))
            }
            _ => QueueingHint::Queue,
        }
    }
}
