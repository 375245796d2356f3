//! Adoption: a restarted agent takes over the simulated pods that its predecessor reported as started.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use setpoint_container_runtime::{ContainerId, ContainerState, ExitStatus};

use super::state::AdoptedContainer;
use super::{NAME, SimulatedRuntime, pod_rule};
use crate::pod::bound_pod::{BoundPod, ContainerIndex, ContainerKind};
use crate::pod::setup::simulated as setup;

impl SimulatedRuntime {
    /// Adds the sandbox and the containers of a pod as its status has them, unless it has not started or has ended. It
    /// must be called for all pods before a new one gets an address.
    pub(crate) fn adopt(&self, pod: &BoundPod) {
        let status = pod.status();
        let Some(started) = status.start_time.as_ref() else {
            return;
        };
        let address: Option<Ipv4Addr> = status.pod_ip.as_ref().and_then(|ip| ip.parse().ok());
        if pod.is_terminal() || address.is_none() {
            return;
        }
        let mut config = setup::sandbox_config(pod, 0);
        pod_rule::apply(&self.simulation.rules, &mut config);
        let Ok(machine) = self.machine(&config.pod.node) else {
            return;
        };
        let mut state = self.state.lock();
        let sandbox = match state.add_sandbox(&config, machine, address, started.0) {
            Ok(sandbox) => sandbox,
            Err(error) => return tracing::warn!(pod = %pod.key, %error, "cannot adopt a running pod"),
        };
        for (at, adopted) in adopted_containers(pod) {
            let config = setup::container_config(pod, at, adopted.attempt);
            if let Err(error) = state.adopt_container(&sandbox, config, adopted) {
                tracing::warn!(pod = %pod.key, %error, "cannot adopt a container");
            }
        }
    }
}

/// The containers that were created, by the pod's status.
fn adopted_containers(pod: &BoundPod) -> Vec<(ContainerIndex, AdoptedContainer)> {
    let status = pod.status();
    let lists = [
        (ContainerKind::Init, &status.init_container_statuses),
        (ContainerKind::Regular, &status.container_statuses),
        (ContainerKind::Ephemeral, &status.ephemeral_container_statuses),
    ];
    let mut adopted = Vec::new();
    for (kind, statuses) in lists {
        for (index, container) in pod.containers(kind).iter().enumerate() {
            let mut statuses = statuses.iter().flatten();
            let status = statuses.find(|status| status.name == container.name);
            let container = status.and_then(adopted_container);
            adopted.extend(container.map(|container| (ContainerIndex { kind, index }, container)));
        }
    }
    adopted
}

fn adopted_container(status: &v1::ContainerStatus) -> Option<AdoptedContainer> {
    let state = status.state.as_ref()?;
    let id = status.container_id.as_deref()?;
    let state = match (&state.running, &state.terminated, &status.last_state) {
        (Some(running), ..) => ContainerState::Running {
            started_at: running.started_at.as_ref()?.0,
        },
        (None, Some(terminated), _) => ContainerState::Exited(exit_status(terminated)),
        // It waits to be restarted.
        (None, None, Some(last)) => ContainerState::Exited(exit_status(last.terminated.as_ref()?)),
        (None, None, None) => return None,
    };
    Some(AdoptedContainer {
        id: ContainerId(id.strip_prefix(NAME)?.strip_prefix("://")?.to_owned()),
        attempt: u32::try_from(status.restart_count).unwrap_or(0),
        state,
    })
}

fn exit_status(terminated: &v1::ContainerStateTerminated) -> ExitStatus {
    let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    };
    ExitStatus {
        started_at: time(&terminated.started_at),
        finished_at: time(&terminated.finished_at),
        exit_code: terminated.exit_code,
        reason: terminated.reason.clone().unwrap_or_default(),
        message: terminated.message.clone().unwrap_or_default(),
    }
}
