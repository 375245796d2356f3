//! The PodStatus that the agent reports: pure.
//!
//! It follows the kubelet's `generateAPIPodStatus` (`pkg/kubelet/kubelet_pods.go`): container statuses from what the runtime
//! has, the phase from those, the conditions from both. Fields that other writers own are kept.

mod conditions;
mod containers;
mod phase;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::bound_pod::{BoundPod, ContainerKind};
use super::observed::ObservedPod;
use super::record::{PodFailure, WaitingReason};
use super::resize::{ActuatedResources, ResizeState};
use crate::probes::ProbeResults;

/// What a status depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatusInput<'a> {
    pub(crate) pod: &'a BoundPod,
    pub(crate) observed: &'a ObservedPod,
    pub(crate) probes: &'a ProbeResults,
    /// Why containers do not run, by name.
    pub(crate) waiting: &'a BTreeMap<String, WaitingReason>,
    /// Why the agent ended the pod.
    pub(crate) failure: Option<&'a PodFailure>,
    /// The resources that containers run with.
    pub(crate) actuated: &'a ActuatedResources,
    /// A resize that has not been carried out.
    pub(crate) resize: Option<&'a ResizeState>,
    pub(crate) host_addresses: &'a [IpAddr],
    /// The name of the runtime, which is the scheme of container ids.
    pub(crate) scheme: &'a str,
    /// Whether no container will be started any more.
    pub(crate) is_ended: bool,
    pub(crate) now: Timestamp,
}

/// The status of a pod.
pub(crate) fn pod_status(input: StatusInput<'_>) -> PodStatus {
    let old = input.pod.status();
    if let Some(rejection) = input.failure
        && old.start_time.is_none()
        && input.observed.is_empty()
    {
        return rejected_status(input, rejection);
    }
    let containers = containers::statuses(input, ContainerKind::Regular);
    let init_containers = containers::statuses(input, ContainerKind::Init);
    let ephemeral_containers = containers::statuses(input, ContainerKind::Ephemeral);
    let phase = phase(input, &containers, &init_containers);
    let all = [init_containers.as_slice(), &containers].concat();
    let conditions = conditions::conditions(input, &all, phase);
    let (reason, message) = reason_and_message(input, phase);
    let hosts = input.host_addresses.iter().map(ToString::to_string);
    let addresses = pod_addresses(input);
    let some = |list: Vec<_>| (!list.is_empty()).then_some(list);
    PodStatus {
        phase: Some(phase.to_owned()),
        reason,
        message,
        observed_generation: input.pod.object.metadata.generation,
        conditions: Some(conditions),
        host_ip: input.host_addresses.first().map(ToString::to_string),
        host_ips: Some(hosts.map(|ip| HostIP { ip }).collect()),
        pod_ip: addresses.first().cloned(),
        pod_ips: (!addresses.is_empty()).then(|| addresses.into_iter().map(|ip| PodIP { ip }).collect()),
        start_time: old.start_time.clone().or(Some(time(input.now))),
        container_statuses: some(containers),
        init_container_statuses: some(init_containers),
        ephemeral_container_statuses: some(ephemeral_containers),
        ..old.clone()
    }
}

/// The status of a pod of which nothing was started: the kubelet reports no containers, and no conditions of its own.
fn rejected_status(input: StatusInput<'_>, rejection: &PodFailure) -> PodStatus {
    let old = input.pod.status();
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(rejection.reason.clone()),
        message: Some(rejection.message.clone()),
        observed_generation: input.pod.object.metadata.generation,
        conditions: Some(conditions::foreign(old)).filter(|conditions| !conditions.is_empty()),
        start_time: Some(time(input.now)),
        ..old.clone()
    }
}

/// The phase. A terminal one is final, and is reported only once nothing of the pod runs.
fn phase(
    input: StatusInput<'_>,
    containers: &[k8s_openapi::api::core::v1::ContainerStatus],
    init_containers: &[k8s_openapi::api::core::v1::ContainerStatus],
) -> &'static str {
    let old = match input.pod.status().phase.as_deref() {
        Some("Succeeded") => return "Succeeded",
        Some("Failed") => return "Failed",
        Some("Running") => "Running",
        _ => "Pending",
    };
    let phase = match (input.failure, input.is_ended) {
        (Some(_), _) => "Failed",
        (None, true) => match phase::phase(input, containers, init_containers) {
            phase @ ("Succeeded" | "Failed") => phase,
            _ => "Failed",
        },
        (None, false) => phase::phase(input, containers, init_containers),
    };
    match phase {
        "Succeeded" | "Failed" if !input.observed.is_stopped() => old,
        phase => phase,
    }
}

/// The reason and message, which belong to the phase.
fn reason_and_message(input: StatusInput<'_>, phase: &str) -> (Option<String>, Option<String>) {
    let old = input.pod.status();
    match input.failure {
        Some(failure) if phase == "Failed" => (Some(failure.reason.clone()), Some(failure.message.clone())),
        _ if old.phase.as_deref() == Some(phase) => (old.reason.clone(), old.message.clone()),
        _ => (None, None),
    }
}

/// The addresses of the pod. Those of a pod whose sandbox was stopped are kept.
fn pod_addresses(input: StatusInput<'_>) -> Vec<String> {
    if input.pod.uses_host_network() {
        return input.host_addresses.iter().map(ToString::to_string).collect();
    }
    let observed = input.observed.addresses();
    if !observed.is_empty() {
        return observed.iter().map(ToString::to_string).collect();
    }
    let old = input.pod.status().pod_ips.iter().flatten();
    old.map(|old| old.ip.clone()).collect()
}

/// Times in objects have no fractions.
pub(crate) fn time(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}
