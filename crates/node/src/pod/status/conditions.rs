//! The conditions of a pod, as the kubelet generates them (`pkg/kubelet/status/generate.go`): pure.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodStatus};

use super::super::bound_pod::{ContainerKind, is_sidecar};
use super::super::resize::ResizeState;
use super::{StatusInput, time};

/// The conditions that the agent owns, in the kubelet's order.
const OWN: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

const RESIZE: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether a condition holds, and why.
#[derive(Debug, Clone, Default)]
struct ConditionState {
    holds: bool,
    reason: &'static str,
    message: String,
}

/// The conditions of other writers, then those of the agent. `statuses` are those of init and regular containers.
pub(super) fn conditions(
    input: StatusInput<'_>,
    statuses: &[ContainerStatus],
    phase: &str,
) -> Vec<PodCondition> {
    let old = input.pod.status().conditions.as_deref().unwrap_or_default();
    let mut conditions = foreign(input.pod.status());
    let containers_ready = containers_ready(input, statuses, phase);
    let own = [
        ready_to_start(input),
        initialized(input, statuses, phase),
        ready(input, &conditions, containers_ready.clone()),
        containers_ready,
        ConditionState::holds(),
    ];
    for (type_, state) in OWN.into_iter().zip(own) {
        conditions.push(condition(input, old, type_, state));
    }
    conditions.retain(|one| !RESIZE.contains(&one.type_.as_str()));
    if let Some((type_, state)) = resize(input) {
        conditions.push(condition(input, old, type_, state));
    }
    if let Some(state) = disruption(input, phase) {
        conditions.retain(|one| one.type_ != DISRUPTION_TARGET);
        conditions.push(condition(input, old, DISRUPTION_TARGET, state));
    }
    conditions
}

/// The condition of a resize that has not been carried out.
fn resize(input: StatusInput<'_>) -> Option<(&'static str, ConditionState)> {
    let [pending, in_progress] = RESIZE;
    let (type_, reason, message) = match input.resize? {
        ResizeState::Deferred { message } => (pending, "Deferred", message),
        ResizeState::InProgress { error } => (in_progress, "Error", error),
    };
    let state = ConditionState {
        holds: true,
        reason,
        message: message.clone(),
    };
    Some((type_, state))
}

/// DisruptionTarget of a pod that the node has terminated for its own sake.
fn disruption(input: StatusInput<'_>, phase: &str) -> Option<ConditionState> {
    let failure = input.failure.filter(|_| phase == "Failed")?;
    failure.termination?;
    Some(ConditionState {
        holds: true,
        reason: "TerminationByKubelet",
        message: failure.message.clone(),
    })
}

/// The conditions of other writers.
pub(super) fn foreign(old: &PodStatus) -> Vec<PodCondition> {
    let is_foreign = |condition: &&PodCondition| !OWN.contains(&condition.type_.as_str());
    let old = old.conditions.iter().flatten();
    old.filter(is_foreign).cloned().collect()
}

fn condition(
    input: StatusInput<'_>,
    old: &[PodCondition],
    type_: &str,
    state: ConditionState,
) -> PodCondition {
    let status = if state.holds { "True" } else { "False" };
    let old = old.iter().find(|old| old.type_ == type_);
    let same = old.filter(|old| old.status == status);
    let since = same.and_then(|old| old.last_transition_time.clone());
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_probe_time: None,
        last_transition_time: since.or_else(|| Some(time(input.now))),
        observed_generation: input.pod.object.metadata.generation,
        reason: some(state.reason),
        message: some(&state.message),
    }
}

fn ready_to_start(input: StatusInput<'_>) -> ConditionState {
    match input.observed.sandbox_need(input.pod.uses_host_network()) {
        Some(need) => ConditionState::fails("PodSandboxNotReady", need.message.to_owned()),
        None => ConditionState::holds(),
    }
}

fn initialized(input: StatusInput<'_>, statuses: &[ContainerStatus], phase: &str) -> ConditionState {
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for container in input.pod.containers(ContainerKind::Init) {
        let status = find(statuses, &container.name);
        let is_done = |status: &ContainerStatus| match is_sidecar(container) {
            true => status.started == Some(true),
            false => status.ready,
        };
        match status {
            None => unknown.push(container.name.as_str()),
            Some(status) if !is_done(status) => incomplete.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    if phase == "Succeeded" && unknown.is_empty() {
        return ConditionState {
            reason: "PodCompleted",
            ..ConditionState::holds()
        };
    }
    let regular = input.pod.containers(ContainerKind::Regular).iter();
    let mut regular = regular.filter_map(|container| find(statuses, &container.name));
    if regular.any(has_started) {
        return ConditionState::holds();
    }
    match unready_message(&unknown, "incomplete", &incomplete) {
        message if message.is_empty() => ConditionState::holds(),
        message => ConditionState::fails("ContainersNotInitialized", message),
    }
}

/// Whether a container has been started at some time.
fn has_started(status: &ContainerStatus) -> bool {
    let states = [status.state.as_ref(), status.last_state.as_ref()];
    let mut states = states.into_iter().flatten();
    status.started == Some(true) || states.any(|state| state.running.is_some() || state.terminated.is_some())
}

fn containers_ready(input: StatusInput<'_>, statuses: &[ContainerStatus], phase: &str) -> ConditionState {
    let sidecars = input
        .pod
        .containers(ContainerKind::Init)
        .iter()
        .filter(|one| is_sidecar(one));
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    for container in sidecars.chain(input.pod.containers(ContainerKind::Regular)) {
        match find(statuses, &container.name) {
            None => unknown.push(container.name.as_str()),
            Some(status) if !status.ready => unready.push(container.name.as_str()),
            Some(_) => {}
        }
    }
    match phase {
        "Succeeded" if unknown.is_empty() => return ConditionState::fails("PodCompleted", String::new()),
        "Failed" => return ConditionState::fails("PodFailed", String::new()),
        _ => {}
    }
    match unready_message(&unknown, "unready", &unready) {
        message if message.is_empty() => ConditionState::holds(),
        message => ConditionState::fails("ContainersNotReady", message),
    }
}

/// Ready: the containers are, and the conditions of all readiness gates hold.
fn ready(
    input: StatusInput<'_>,
    conditions: &[PodCondition],
    containers_ready: ConditionState,
) -> ConditionState {
    if !containers_ready.holds {
        return containers_ready;
    }
    let gates = input.pod.spec().readiness_gates.iter().flatten();
    let messages = gates.filter_map(|gate| {
        let type_ = &gate.condition_type;
        match conditions.iter().find(|one| one.type_ == *type_) {
            None => Some(format!(
                "corresponding condition of pod readiness gate {type_:?} does not exist."
            )),
            Some(found) if found.status != "True" => Some(format!(
                "the status of pod readiness gate {type_:?} is not \"True\", but {}",
                found.status
            )),
            Some(_) => None,
        }
    });
    match messages.collect::<Vec<_>>().join(", ") {
        message if message.is_empty() => ConditionState::holds(),
        message => ConditionState::fails("ReadinessGatesNotReady", message),
    }
}

fn unready_message(unknown: &[&str], state: &str, names: &[&str]) -> String {
    let lists = [("unknown", unknown), (state, names)];
    let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let text =
        |(state, names): (&str, &[&str])| format!("containers with {state} status: [{}]", names.join(" "));
    lists.map(text).collect::<Vec<_>>().join(", ")
}

fn find<'a>(statuses: &'a [ContainerStatus], name: &str) -> Option<&'a ContainerStatus> {
    statuses.iter().find(|status| status.name == name)
}

// === impl ConditionState ===

impl ConditionState {
    fn holds() -> Self {
        Self {
            holds: true,
            ..Self::default()
        }
    }

    fn fails(reason: &'static str, message: String) -> Self {
        Self {
            holds: false,
            reason,
            message,
        }
    }
}
