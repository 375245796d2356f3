//! The phase of a pod, as the kubelet's `getPhase` computes it: pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus};

use super::super::bound_pod::{ContainerKind, is_sidecar};
use super::StatusInput;

/// Counts of containers by what they do.
#[derive(Debug, Default)]
struct Counts {
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    /// Of those that stopped, those that are not started again.
    ended: usize,
    /// Of those that stopped, those with exit code 0.
    succeeded: usize,
}

/// How far the init containers have come.
enum Initialization {
    Done,
    Pending,
    Failed,
}

pub(super) fn phase(
    input: StatusInput<'_>,
    containers: &[ContainerStatus],
    init_containers: &[ContainerStatus],
) -> &'static str {
    let mut counts = Counts::default();
    let mut initialization = Initialization::Done;
    for container in input.pod.containers(ContainerKind::Init) {
        let status = find(init_containers, container);
        if is_sidecar(container) {
            count_sidecar(input, status, &mut counts, &mut initialization);
        } else {
            match init_container(input, container, status) {
                Initialization::Failed => return "Failed",
                Initialization::Pending => initialization = Initialization::Pending,
                Initialization::Done => {}
            }
        }
    }
    for container in input.pod.containers(ContainerKind::Regular) {
        count_regular(input, container, find(containers, container), &mut counts);
    }
    let is_pending = matches!(initialization, Initialization::Pending) || counts.waiting > 0;
    match counts {
        _ if is_pending => "Pending",
        Counts {
            running: 1..,
            unknown: 0,
            ..
        } => "Running",
        Counts {
            running: 0,
            stopped: 1..,
            unknown: 0,
            ..
        } => ended_phase(input, &counts),
        _ => "Pending",
    }
}

/// The phase of a pod all of whose containers have stopped.
fn ended_phase(input: StatusInput<'_>, counts: &Counts) -> &'static str {
    if !input.is_ended && counts.stopped != counts.ended {
        return "Running";
    }
    match counts.stopped == counts.succeeded {
        true => "Succeeded",
        false => "Failed",
    }
}

fn init_container(
    input: StatusInput<'_>,
    container: &Container,
    status: Option<&ContainerStatus>,
) -> Initialization {
    match status.and_then(exit_code) {
        Some(0) => Initialization::Done,
        Some(code) if !input.pod.restarts(container, code) => Initialization::Failed,
        _ => Initialization::Pending,
    }
}

fn count_sidecar(
    input: StatusInput<'_>,
    status: Option<&ContainerStatus>,
    counts: &mut Counts,
    initialization: &mut Initialization,
) {
    let regular = input.pod.containers(ContainerKind::Regular).iter();
    let has_initialized = input
        .observed
        .has_active_started(regular.map(|one| one.name.as_str()));
    let Some((status, state)) = status.and_then(|status| Some((status, status.state.as_ref()?))) else {
        counts.unknown += 1;
        return;
    };
    let is_pending = if state.running.is_some() {
        counts.running += 1;
        status.started != Some(true)
    } else if state.terminated.is_some() || exit_code(status).is_some() {
        false
    } else {
        counts.waiting += 1;
        true
    };
    if is_pending && !has_initialized {
        *initialization = Initialization::Pending;
    }
}

fn count_regular(
    input: StatusInput<'_>,
    container: &Container,
    status: Option<&ContainerStatus>,
    counts: &mut Counts,
) {
    let Some((status, state)) = status.and_then(|status| Some((status, status.state.as_ref()?))) else {
        counts.unknown += 1;
        return;
    };
    if state.running.is_some() {
        counts.running += 1;
        return;
    }
    let Some(exit_code) = exit_code(status) else {
        counts.waiting += 1;
        return;
    };
    counts.stopped += 1;
    counts.ended += usize::from(!input.pod.restarts(container, exit_code));
    counts.succeeded += usize::from(state.terminated.is_some() && exit_code == 0);
}

/// The exit code of a container that has terminated, or that waits after it has.
fn exit_code(status: &ContainerStatus) -> Option<i32> {
    let state = status.state.as_ref()?;
    let state = match state.waiting {
        Some(_) => status.last_state.as_ref()?,
        None => state,
    };
    Some(state.terminated.as_ref()?.exit_code)
}

fn find<'a>(statuses: &'a [ContainerStatus], container: &Container) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == container.name)
}
