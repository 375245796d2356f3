//! Readiness of simulated containers, by the rules of their pods: pure.

use jiff::Timestamp;
use setpoint_api::go_duration;
use setpoint_container_runtime::{ContainerRecord, ContainerState};

use super::rules::READY_AFTER;
use crate::pod::observed::ObservedPod;
use crate::probes::{ContainerProbes, ProbeResults};

/// The results of the probes of a simulated pod: all of them succeed, except the readiness of containers whose time has not
/// come.
pub(crate) fn probe_results(observed: &ObservedPod, now: Timestamp) -> ProbeResults {
    let mut results = ProbeResults::all_succeed();
    let unready = ContainerProbes {
        readiness: Some(false),
        ..results.default
    };
    let waiting = observed
        .containers
        .iter()
        .filter(|container| !is_ready(container, now));
    results
        .by_container
        .extend(waiting.map(|container| (container.id.clone(), unready)));
    results
}

fn is_ready(container: &ContainerRecord, now: Timestamp) -> bool {
    let after = container.annotations.get(READY_AFTER);
    let after = after.and_then(|text| go_duration::parse(text).ok());
    match (&container.state, after) {
        (ContainerState::Running { started_at }, Some(after)) => started_at
            .saturating_add(after)
            .is_ok_and(|ready_at| ready_at <= now),
        _ => true,
    }
}
