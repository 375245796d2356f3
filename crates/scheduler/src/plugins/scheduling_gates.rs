//! SchedulingGates: a pod with scheduling gates does not enter the active queue.

use std::sync::Arc;

use super::{PluginArgs, PluginError};
use crate::framework::{
    ActionType, ClusterEvent, EnqueueExtensions, EventResource, Handle, Plugin, PreEnqueue, Registration,
    Rejection,
};
use crate::pod_info::PodInfo;

#[derive(Debug)]
pub(super) struct SchedulingGates;

pub(super) fn build(_: &PluginArgs, _: &Handle) -> Result<Registration, PluginError> {
    Ok(Registration {
        pre_enqueue: Some(Arc::new(SchedulingGates)),
        enqueue: Some(Arc::new(SchedulingGates)),
        ..Registration::new(SchedulingGates.name())
    })
}

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }
}

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        if pod.scheduling_gates.is_empty() {
            return Ok(());
        }
        let gates = pod.scheduling_gates.join(" ");
        Err(Rejection::unresolvable(format!(
            "waiting for scheduling gates: [{gates}]"
        )))
    }
}

impl EnqueueExtensions for SchedulingGates {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        let action = ActionType::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
        vec![ClusterEvent::new(EventResource::TargetPod, action)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_waits_for_its_last_gate() {
        let mut pod = crate::fixtures::pod("p", "");
        assert!(SchedulingGates.pre_enqueue(&pod).is_ok());
        pod.scheduling_gates = Box::new(["a".into(), "b".into()]);
        let rejection = SchedulingGates.pre_enqueue(&pod).unwrap_err();
        assert_eq!(rejection.to_string(), "waiting for scheduling gates: [a b]");
    }
}
