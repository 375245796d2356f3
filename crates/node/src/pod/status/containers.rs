//! The ContainerStatus of each container, as the kubelet's `convertToAPIContainerStatuses` computes it: pure.

use k8s_openapi::api::core::v1::{
    Container, ContainerState as ApiState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, ContainerUser, LinuxContainerUser, VolumeMountStatus,
};
use setpoint_container_runtime::{ContainerRecord, ContainerState, ExitStatus};

use super::super::bound_pod::{ContainerKind, is_sidecar};
use super::super::resize::{ResizeState, in_force};
use super::{StatusInput, time};

/// The text for a container that the runtime no longer has.
const LOST: &str =
    "The container could not be located when the pod was deleted.  The container used to be Running";

/// The statuses of one list of containers: init containers in the order of the spec, others by name.
pub(super) fn statuses(input: StatusInput<'_>, kind: ContainerKind) -> Vec<ContainerStatus> {
    let containers = input.pod.containers(kind).iter();
    let mut statuses: Vec<_> = containers
        .map(|container| status(input, kind, container))
        .collect();
    if kind != ContainerKind::Init {
        statuses.sort_by(|a, b| a.name.cmp(&b.name));
    }
    statuses
}

fn status(input: StatusInput<'_>, kind: ContainerKind, container: &Container) -> ContainerStatus {
    let old = find_old(input, kind, &container.name);
    let mut records = input
        .observed
        .containers
        .iter()
        .filter(|one| one.name == container.name);
    let mut status = match records.next() {
        Some(newest) => {
            let previous = records.next().map(|previous| state(input, previous, None));
            observed_status(input, container, (newest, previous), old)
        }
        None => unobserved_status(input, container, old),
    };
    if kind == ContainerKind::Init
        && input.observed.newest(&container.name).is_none()
        && !is_sidecar(container)
        && waiting_of(&status).is_some()
        && has_regular(input)
    {
        status.state = Some(inferred_completion());
    } else {
        apply_waiting(input, kind, container, &mut status);
    }
    set_readiness(input, kind, container, &mut status);
    status
}

/// The status of a container that the runtime has. `previous` is the state of the one before it.
fn observed_status(
    input: StatusInput<'_>,
    container: &Container,
    (newest, previous): (&ContainerRecord, Option<ApiState>),
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let attempt = i32::try_from(newest.attempt).unwrap_or(i32::MAX);
    let restart_count = attempt.max(old.map_or(0, |old| old.restart_count));
    let container_id = id_text(input, newest);
    let mounts = old.and_then(|old| old.volume_mounts.clone());
    let kept = old.filter(|old| old.container_id.as_deref() == Some(&container_id));
    let replaced = old.filter(|old| old.container_id.as_deref() != Some(&container_id));
    let last_state = previous
        .or_else(|| replaced.and_then(|old| old.state.clone().filter(|state| state.terminated.is_some())))
        .or_else(|| kept.or(replaced).and_then(|old| old.last_state.clone()));
    let resources = in_force(input.pod, newest, input.actuated).or_else(|| container.resources.clone());
    // What a pending resize requests is not allocated.
    let allocated = match input.resize {
        Some(ResizeState::Deferred { .. }) => resources.clone(),
        _ => container.resources.clone(),
    };
    ContainerStatus {
        name: container.name.clone(),
        image: newest.image.clone(),
        image_id: newest.image_id.clone(),
        container_id: Some(container_id),
        restart_count,
        state: Some(state(input, newest, old)),
        last_state: last_state.filter(|state| *state != ApiState::default()),
        allocated_resources: allocated.and_then(|resources| resources.requests),
        resources,
        user: newest.user.as_ref().map(|(uid, gid, groups)| ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: *uid,
                gid: *gid,
                supplemental_groups: (!groups.is_empty()).then(|| groups.clone()),
            }),
        }),
        volume_mounts: mounts.or_else(|| volume_mounts(container)),
        ..ContainerStatus::default()
    }
}

/// The status of a container that the runtime does not have: not created yet, or removed.
fn unobserved_status(
    input: StatusInput<'_>,
    container: &Container,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    if let Some(old) = old.filter(|old| old.state.as_ref().is_some_and(|state| state.terminated.is_some())) {
        return old.clone();
    }
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(creation_reason(input), "")),
        volume_mounts: volume_mounts(container),
        ..ContainerStatus::default()
    };
    let Some(old) = old else {
        return status;
    };
    status.restart_count = old.restart_count;
    status.last_state = old.last_state.clone();
    let has_run = old.state.as_ref().is_some_and(|state| state.running.is_some());
    let has_last = old
        .last_state
        .as_ref()
        .is_some_and(|last| last.terminated.is_some());
    if has_run && !has_last {
        status.last_state = Some(unknown_termination(LOST));
        if !input.pod.is_deleted() {
            status.restart_count += 1;
        }
    }
    status
}

fn state(input: StatusInput<'_>, record: &ContainerRecord, old: Option<&ContainerStatus>) -> ApiState {
    match &record.state {
        ContainerState::Running { started_at } => ApiState {
            running: Some(ContainerStateRunning {
                started_at: Some(time(*started_at)),
            }),
            ..ApiState::default()
        },
        ContainerState::Exited(exit) => terminated(exit, id_text(input, record)),
        ContainerState::Unknown if was_running(old) => {
            unknown_termination("The container could not be located when the pod was terminated")
        }
        // It is started next. The kubelet gives no reason here, but reports the state only if it takes a second.
        ContainerState::Created => waiting(creation_reason(input), ""),
        ContainerState::Unknown => waiting("", ""),
    }
}

/// Why a container waits that is about to be created or started.
fn creation_reason(input: StatusInput<'_>) -> &'static str {
    match input.pod.containers(ContainerKind::Init).is_empty() {
        true => "ContainerCreating",
        false => "PodInitializing",
    }
}

fn was_running(old: Option<&ContainerStatus>) -> bool {
    let state = old.and_then(|old| old.state.as_ref());
    state.is_some_and(|state| state.running.is_some())
}

fn terminated(exit: &ExitStatus, container_id: String) -> ApiState {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ApiState {
        terminated: Some(ContainerStateTerminated {
            container_id: Some(container_id),
            exit_code: exit.exit_code,
            reason: some(&exit.reason),
            message: some(&exit.message),
            started_at: Some(time(exit.started_at)),
            finished_at: Some(time(exit.finished_at)),
            ..ContainerStateTerminated::default()
        }),
        ..ApiState::default()
    }
}

pub(super) fn unknown_termination(message: &str) -> ApiState {
    ApiState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some(message.to_owned()),
            ..ContainerStateTerminated::default()
        }),
        ..ApiState::default()
    }
}

fn inferred_completion() -> ApiState {
    let message = "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally";
    ApiState {
        terminated: Some(ContainerStateTerminated {
            exit_code: 0,
            reason: Some("Completed".to_owned()),
            message: Some(message.to_owned()),
            ..ContainerStateTerminated::default()
        }),
        ..ApiState::default()
    }
}

/// A container that is to be started, and that cannot be, waits for the recorded reason.
fn apply_waiting(
    input: StatusInput<'_>,
    kind: ContainerKind,
    container: &Container,
    status: &mut ContainerStatus,
) {
    let newest = input.observed.newest(&container.name).map(|newest| &newest.state);
    let is_to_start = match newest {
        None | Some(ContainerState::Created | ContainerState::Unknown) => true,
        Some(ContainerState::Running { .. }) => false,
        Some(ContainerState::Exited(exit)) => {
            kind != ContainerKind::Ephemeral
                && !(kind == ContainerKind::Init && exit.exit_code == 0)
                && input.pod.restarts(container, exit.exit_code)
        }
    };
    let Some(reason) = input.waiting.get(&container.name) else {
        return;
    };
    if input.is_ended || input.pod.is_deleted() || !is_to_start {
        return;
    }
    if let Some(state) = status.state.take().filter(|state| state.terminated.is_some()) {
        status.last_state = Some(state);
    }
    status.state = Some(waiting(&reason.reason, &reason.message));
}

/// `started` and `ready`, by the probes.
fn set_readiness(
    input: StatusInput<'_>,
    kind: ContainerKind,
    container: &Container,
    status: &mut ContainerStatus,
) {
    let state = status.state.as_ref();
    let is_running = state.is_some_and(|state| state.running.is_some());
    let newest = input.observed.newest(&container.name);
    let results = newest
        .map(|newest| input.probes.of(&newest.id))
        .unwrap_or_default();
    let has_started = is_running && (container.startup_probe.is_none() || results.startup == Some(true));
    let is_ready = has_started && results.readiness.unwrap_or(container.readiness_probe.is_none());
    let terminated = state.and_then(|state| state.terminated.as_ref());
    let has_completed = terminated.is_some_and(|terminated| terminated.exit_code == 0);
    status.started = match kind {
        ContainerKind::Ephemeral => None,
        ContainerKind::Init | ContainerKind::Regular => Some(has_started),
    };
    status.ready = match kind {
        ContainerKind::Init if !is_sidecar(container) => has_completed,
        ContainerKind::Init | ContainerKind::Regular => is_ready,
        ContainerKind::Ephemeral => false,
    };
}

fn waiting(reason: &str, message: &str) -> ApiState {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ApiState {
        waiting: Some(ContainerStateWaiting {
            reason: some(reason),
            message: some(message),
        }),
        ..ApiState::default()
    }
}

fn waiting_of(status: &ContainerStatus) -> Option<&ContainerStateWaiting> {
    status.state.as_ref()?.waiting.as_ref()
}

/// Whether a regular container was created, so that init containers must have completed.
fn has_regular(input: StatusInput<'_>) -> bool {
    let mut regular = input.pod.containers(ContainerKind::Regular).iter();
    regular.any(|container| input.observed.newest(&container.name).is_some())
}

fn volume_mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref()?;
    let status = |mount: &k8s_openapi::api::core::v1::VolumeMount| VolumeMountStatus {
        name: mount.name.clone(),
        mount_path: mount.mount_path.clone(),
        read_only: mount.read_only.filter(|read_only| *read_only),
        recursive_read_only: (mount.read_only == Some(true)).then(|| "Disabled".to_owned()),
        ..VolumeMountStatus::default()
    };
    Some(mounts.iter().map(status).collect())
}

fn find_old<'a>(input: StatusInput<'a>, kind: ContainerKind, name: &str) -> Option<&'a ContainerStatus> {
    let status = input.pod.status();
    let statuses = match kind {
        ContainerKind::Init => &status.init_container_statuses,
        ContainerKind::Regular => &status.container_statuses,
        ContainerKind::Ephemeral => &status.ephemeral_container_statuses,
    };
    statuses.iter().flatten().find(|status| status.name == name)
}

fn id_text(input: StatusInput<'_>, record: &ContainerRecord) -> String {
    format!("{}://{}", input.scheme, record.id.0)
}
