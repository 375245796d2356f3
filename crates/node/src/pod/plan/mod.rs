//! The next actions for a pod that shall run: pure.
//!
//! It follows the kubelet's `computePodActions` (`pkg/kubelet/kuberuntime/kuberuntime_manager.go`): a pod without a usable
//! sandbox gets one and starts over; otherwise its init containers run in order, then its regular containers; containers
//! that exited are restarted by their policy, within the limits of their back-off.

mod init_containers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use setpoint_container_runtime::{ContainerId, ContainerRecord, ContainerState};

use super::backoff::Backoff;
use super::bound_pod::{BoundPod, ContainerIndex, ContainerKind};
use super::observed::ObservedPod;
use super::record::WaitingReason;
use crate::probes::ProbeResults;

/// The annotation of containers with the hash of what they were created from.
pub(crate) const CONTAINER_HASH: &str = "io.kubernetes.container.hash";

/// What a plan depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanInput<'a> {
    pub(crate) pod: &'a BoundPod,
    pub(crate) observed: &'a ObservedPod,
    pub(crate) probes: &'a ProbeResults,
    /// By the name of the container.
    pub(crate) backoffs: &'a BTreeMap<String, Backoff>,
    /// When a failed start is tried again, by the name of the container; the empty name is the sandbox.
    pub(crate) retries: &'a BTreeMap<String, Timestamp>,
    pub(crate) now: Timestamp,
}

/// The actions for a pod, in the order of the fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Everything of the pod is stopped first.
    pub(crate) kill_pod: bool,
    /// Containers to stop.
    pub(crate) kills: Vec<ContainerKill>,
    /// The attempt number of the sandbox to create.
    pub(crate) sandbox: Option<u32>,
    /// Containers to start, in order.
    pub(crate) starts: Vec<ContainerIndex>,
    /// Containers whose start waits, by name.
    pub(crate) waiting: BTreeMap<String, WaitingReason>,
    /// When the plan may change by itself.
    pub(crate) next: Option<Timestamp>,
}

/// A container to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContainerKill {
    pub(crate) id: ContainerId,
    pub(crate) name: String,
    /// The text of its event.
    pub(crate) message: String,
    pub(crate) reason: KillReason,
}

/// Why a container is stopped, by which its grace period is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillReason {
    /// Its startup probe failed.
    StartupProbe,
    /// Its liveness probe failed.
    LivenessProbe,
    /// Anything else.
    Other,
}

/// The next actions for a pod that is neither deleted nor finished.
pub(crate) fn plan(input: PlanInput<'_>) -> Plan {
    let mut plan = match input.observed.sandbox_need(input.pod.uses_host_network()) {
        Some(need) => plan_sandbox(input, need.attempt),
        None => plan_containers(input),
    };
    delay_restarts(input, &mut plan);
    plan
}

impl Plan {
    /// Whether there is nothing to do now.
    pub(crate) fn is_empty(&self) -> bool {
        !self.kill_pod && self.kills.is_empty() && self.sandbox.is_none() && self.starts.is_empty()
    }

    fn start(&mut self, kind: ContainerKind, index: usize) {
        self.starts.push(ContainerIndex { kind, index });
    }

    fn kill(&mut self, container: &ContainerRecord, message: String, reason: KillReason) {
        self.kills.push(ContainerKill {
            id: container.id.clone(),
            name: container.name.clone(),
            message,
            reason,
        });
    }

    fn waits_until(&mut self, until: Timestamp) {
        self.next = Some(self.next.map_or(until, |next| next.min(until)));
    }
}

/// A new sandbox: everything in the old one is stopped, and the pod starts over, unless it is done.
fn plan_sandbox(input: PlanInput<'_>, attempt: u32) -> Plan {
    let (pod, observed) = (input.pod, input.observed);
    let mut plan = Plan {
        kill_pod: !observed.is_stopped(),
        ..Plan::default()
    };
    if !pod.restarts_on_failure() && attempt != 0 && !observed.containers.is_empty() {
        return plan;
    }
    let succeeded = |container: &v1::Container| {
        let policy = container.restart_policy.as_deref();
        let runs_once = policy.or(pod.spec().restart_policy.as_deref()) == Some("OnFailure");
        runs_once
            && observed
                .newest(&container.name)
                .is_some_and(|newest| exit_code(newest) == Some(0))
    };
    let regular = pod.containers(ContainerKind::Regular);
    let starts: Vec<usize> = (0..regular.len())
        .filter(|at| !succeeded(&regular[*at]))
        .collect();
    let is_created = |container: &v1::Container| observed.newest(&container.name).is_some();
    if starts.is_empty() && regular.iter().any(is_created) {
        return plan;
    }
    plan.sandbox = Some(attempt);
    if pod.containers(ContainerKind::Init).is_empty() {
        starts
            .into_iter()
            .for_each(|at| plan.start(ContainerKind::Regular, at));
    } else {
        plan.start(ContainerKind::Init, 0);
    }
    plan
}

fn plan_containers(input: PlanInput<'_>) -> Plan {
    let mut plan = Plan::default();
    let ephemeral = input.pod.containers(ContainerKind::Ephemeral).iter();
    for (at, container) in ephemeral.enumerate() {
        if input.observed.newest(&container.name).is_none() {
            plan.start(ContainerKind::Ephemeral, at);
        }
    }
    let has_initialized = init_containers::plan(input, &mut plan);
    if has_initialized && !plan.kill_pod {
        plan_regular(input, &mut plan);
    }
    plan
}

fn plan_regular(input: PlanInput<'_>, plan: &mut Plan) {
    let mut has_work = false;
    for (at, container) in input.pod.containers(ContainerKind::Regular).iter().enumerate() {
        let newest = input.observed.newest(&container.name);
        match newest.map(|newest| (newest, &newest.state)) {
            Some((newest, ContainerState::Running { .. })) => {
                let Some((message, reason)) = kill_cause(input, container, newest) else {
                    has_work = true;
                    continue;
                };
                let restarts = match container.restart_policy.as_deref() {
                    Some(policy) => policy != "Never",
                    None => input.pod.restarts_on_failure(),
                };
                if restarts || reason == KillReason::Other {
                    has_work = true;
                    plan.start(ContainerKind::Regular, at);
                    plan.kill(newest, format!("Container {message}, will be restarted"), reason);
                } else {
                    plan.kill(newest, format!("Container {message}"), reason);
                }
            }
            Some((_, ContainerState::Exited(exit))) => {
                if input.pod.restarts(container, exit.exit_code) {
                    has_work = true;
                    plan.start(ContainerKind::Regular, at);
                }
            }
            Some((newest, ContainerState::Unknown)) => {
                has_work = true;
                let message = "Container is in \"Unknown\" state, try killing it before restart".to_owned();
                plan.kill(newest, message, KillReason::Other);
                plan.start(ContainerKind::Regular, at);
            }
            Some((_, ContainerState::Created)) | None => {
                has_work = true;
                plan.start(ContainerKind::Regular, at);
            }
        }
    }
    if !has_work {
        // Sidecars do not keep a pod alive whose containers are done.
        plan.starts.retain(|start| start.kind != ContainerKind::Init);
        plan.kill_pod = !input.observed.is_stopped();
    }
}

/// Why a running container is stopped: the rest of the event's text, and the reason.
fn kill_cause(
    input: PlanInput<'_>,
    container: &v1::Container,
    newest: &ContainerRecord,
) -> Option<(String, KillReason)> {
    let (name, results) = (&container.name, input.probes.of(&newest.id));
    if has_changed(container, newest) {
        return Some((format!("{name} definition changed"), KillReason::Other));
    }
    if results.liveness == Some(false) {
        return Some((format!("{name} failed liveness probe"), KillReason::LivenessProbe));
    }
    let has_failed = results.startup == Some(false);
    has_failed.then(|| (format!("{name} failed startup probe"), KillReason::StartupProbe))
}

/// Whether the container was created from another image than its spec has.
fn has_changed(container: &v1::Container, newest: &ContainerRecord) -> bool {
    let hash = newest.annotations.get(CONTAINER_HASH);
    hash.is_some_and(|hash| *hash != container_hash(container))
}

/// The hash of the fields whose change recreates the container: its name and image, FNV-1a.
pub(crate) fn container_hash(container: &v1::Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let bytes = container.name.bytes().chain([0]).chain(image.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{hash:x}")
}

/// Takes those starts out of the plan whose back-off has not passed.
fn delay_restarts(input: PlanInput<'_>, plan: &mut Plan) {
    let retry = |name: &str| input.retries.get(name).copied().filter(|at| *at > input.now);
    if let Some(at) = retry("").filter(|_| plan.sandbox.is_some()) {
        plan.waits_until(at);
        plan.sandbox = None;
        plan.starts.clear();
    }
    for start in std::mem::take(&mut plan.starts) {
        let container = input.pod.container(start);
        if let Some((until, waiting)) = crash_loop(input, container) {
            plan.waits_until(until);
            plan.waiting.insert(container.name.clone(), waiting);
        } else if let Some(at) = retry(&container.name) {
            plan.waits_until(at);
        } else {
            plan.starts.push(start);
            continue;
        }
        if start.kind == ContainerKind::Init && !super::bound_pod::is_sidecar(container) {
            // Containers after an init container wait for it.
            break;
        }
    }
}

/// The back-off of a container that is to be restarted, if it has not passed.
fn crash_loop(input: PlanInput<'_>, container: &v1::Container) -> Option<(Timestamp, WaitingReason)> {
    let (exited, exit) = input.observed.newest_exited(&container.name)?;
    let backoff = find_backoff(input.backoffs, exited)?;
    let until = backoff.waits_until(exit.finished_at, input.now)?;
    let message = format!(
        "back-off {} restarting failed container={} pod={}",
        go_duration(backoff.delay.as_secs()),
        container.name,
        pod_text(input.pod)
    );
    Some((until, WaitingReason::new("CrashLoopBackOff", message)))
}

/// The back-off of a container; where another agent made the earlier attempts, by their number.
pub(crate) fn find_backoff(
    backoffs: &BTreeMap<String, Backoff>,
    exited: &ContainerRecord,
) -> Option<Backoff> {
    let known = backoffs.get(&exited.name).copied();
    known.or_else(|| Backoff::recovered(exited.attempt, exited.created_at))
}

/// A pod as the kubelet's messages name it.
pub(crate) fn pod_text(pod: &BoundPod) -> String {
    let (name, namespace) = (pod.key.name(), pod.key.namespace());
    format!("{name}_{namespace}({})", pod.uid())
}

/// Seconds as Go prints a duration: `40s`, `1m20s`, `5m0s`.
fn go_duration(seconds: u64) -> String {
    match seconds / 60 {
        0 => format!("{seconds}s"),
        minutes => format!("{minutes}m{}s", seconds % 60),
    }
}

fn exit_code(container: &ContainerRecord) -> Option<i32> {
    match &container.state {
        ContainerState::Exited(exit) => Some(exit.exit_code),
        _ => None,
    }
}
