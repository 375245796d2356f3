//! Events that may make a pod schedulable which DynamicResources rejected.

use super::DynamicResources;
use super::objects::Claim;
use crate::framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventChange, EventResource, QueueingHint,
};
use crate::pod_info::PodInfo;

impl EnqueueExtensions for DynamicResources {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let change = ActionType::ADD | ActionType::UPDATE;
        let node = ActionType::ADD | ActionType::UPDATE_NODE_LABEL | ActionType::UPDATE_NODE_TAINT;
        vec![
            ClusterEvent::new(EventResource::Node, node),
            ClusterEvent::new(EventResource::ResourceClaim, change | ActionType::DELETE),
            ClusterEvent::new(
                EventResource::TargetPod,
                ActionType::UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            ),
            ClusterEvent::new(EventResource::DeviceClass, change),
            ClusterEvent::new(EventResource::ResourceSlice, change),
        ]
    }

    fn queueing_hint(&self, pod: &PodInfo, event: ClusterEvent, change: &EventChange) -> QueueingHint {
        let (EventResource::ResourceClaim, EventChange::Object { old, new }) = (event.resource, change)
        else {
            return QueueingHint::Queue;
        };
        let is_allocated = |object: &setpoint_api::Stored| {
            let view = object.view::<Claim>().ok();
            view.is_some_and(|view| view.allocation().is_some())
        };
        let was_allocated = old.as_deref().is_some_and(is_allocated);
        let is_allocated = new.as_deref().is_some_and(is_allocated);
        // Devices of any claim may be what the pod waits for.
        if was_allocated && !is_allocated {
            return QueueingHint::Queue;
        }
        // The special claim of the pod is gone: another one can be created.
        if new.is_none() && old.as_deref().is_some_and(|claim| is_owned_by(claim, pod)) {
            return QueueingHint::Queue;
        }
        let is_own = new.as_ref().is_some_and(|claim| {
            claim.key().namespace() == pod.namespace()
                && pod
                    .resource_claims
                    .iter()
                    .any(|reference| reference.claim.as_deref() == Some(claim.key().name()))
        });
        QueueingHint::queue_if(is_own)
    }
}

fn is_owned_by(claim: &setpoint_api::Stored, pod: &PodInfo) -> bool {
    claim.controller().is_some_and(|owner| owner.uid == pod.uid)
}
