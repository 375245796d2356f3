//! The actions for init containers, as the kubelet's `computeInitContainerActions` computes them: pure.

use k8s_openapi::api::core::v1;
use setpoint_container_runtime::{ContainerRecord, ContainerState};

use super::super::bound_pod::{ContainerIndex, ContainerKind, is_sidecar};
use super::{KillReason, Plan, PlanInput, kill_cause};

/// What follows from the state of one init container.
enum Step {
    /// It is done, or a sidecar that has started: the next one may start.
    Initialized,
    /// It is not done yet.
    Wait,
    /// It is started, or started again.
    Start,
    /// It failed, and with it the pod.
    Fail,
}

/// Adds the actions for init containers. Returns whether the pod has been initialized, so that its regular containers may
/// start.
pub(super) fn plan(input: PlanInput<'_>, plan: &mut Plan) -> bool {
    let init = input.pod.containers(ContainerKind::Init);
    if init.is_empty() {
        return true;
    }
    let regular = input.pod.containers(ContainerKind::Regular).iter();
    let mut has_initialized = input
        .observed
        .has_active_started(regular.map(|one| one.name.as_str()));
    let mut is_past = has_initialized;
    let mut starts = Vec::new();
    // From the last one backwards: completed ones may have been removed from the runtime.
    for (at, container) in init.iter().enumerate().rev() {
        let Some(active) = input.observed.active(&container.name) else {
            if is_past && is_sidecar(container) {
                starts.push(at);
            }
            continue;
        };
        if is_past && !is_sidecar(container) {
            continue;
        }
        match step(input, plan, container, active) {
            Step::Initialized if at == init.len() - 1 => has_initialized = true,
            Step::Initialized if !is_past => starts.push(at + 1),
            Step::Initialized | Step::Wait => {}
            Step::Start => starts.push(at),
            Step::Fail => {
                plan.kill_pod = !input.observed.is_stopped();
                plan.starts.clear();
                return false;
            }
        }
        is_past = true;
    }
    if !is_past {
        starts.push(0);
    }
    let index = |index| ContainerIndex {
        kind: ContainerKind::Init,
        index,
    };
    plan.starts.extend(starts.into_iter().rev().map(index));
    has_initialized
}

fn step(input: PlanInput<'_>, plan: &mut Plan, container: &v1::Container, active: &ContainerRecord) -> Step {
    match &active.state {
        ContainerState::Created => Step::Start,
        ContainerState::Running { .. } if is_sidecar(container) => {
            step_sidecar(input, plan, container, active)
        }
        ContainerState::Running { .. } => Step::Wait,
        ContainerState::Exited(_) if is_sidecar(container) => Step::Start,
        ContainerState::Exited(exit) if exit.exit_code == 0 => Step::Initialized,
        ContainerState::Exited(exit) if input.pod.restarts(container, exit.exit_code) => Step::Start,
        ContainerState::Exited(_) => Step::Fail,
        ContainerState::Unknown if is_sidecar(container) || input.pod.restarts_on_failure() => {
            let message = "Init container is in \"Unknown\" state, try killing it before restart".to_owned();
            plan.kill(active, message, KillReason::Other);
            Step::Start
        }
        ContainerState::Unknown => Step::Fail,
    }
}

fn step_sidecar(
    input: PlanInput<'_>,
    plan: &mut Plan,
    container: &v1::Container,
    active: &ContainerRecord,
) -> Step {
    let has_started = container.startup_probe.is_none() || input.probes.of(&active.id).startup == Some(true);
    match kill_cause(input, container, active) {
        Some((message, reason)) => {
            plan.kill(active, format!("Init container {message}"), reason);
            Step::Start
        }
        None if has_started => Step::Initialized,
        None => Step::Wait,
    }
}
