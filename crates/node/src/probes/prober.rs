//! [`Prober`]: carries out the probes of all containers when they are due.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, Key};
use setpoint_container_runtime::{ContainerId, ContainerState, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::check::{Endpoint, Outcome, check};
use super::results::{ContainerProbes, ProbeResults};
use super::spec::{ProbeKind, ProbeSpec, probes};
use super::state::ProbeState;
use crate::pod::bound_pod::BoundPod;
use crate::pod::events::PodEvents;
use crate::pod::observed::ObservedPod;
use crate::pod::record::Records;
use crate::pod::work::PodExecutor;

/// Probes that could not be carried out are tried this often before that counts as a failure.
const MAX_TRIES: usize = 3;

/// Carries out probes.
#[derive(Debug)]
pub(crate) struct Prober {
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn Clock>,
    events: PodEvents,
    state: Mutex<State>,
    /// Notified when a probe was added.
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    containers: HashMap<ContainerId, ProbedContainer>,
    /// When probes are due. Those of removed containers are skipped.
    due: BinaryHeap<Reverse<(Timestamp, ContainerId, ProbeKind)>>,
}

/// A running container with probes.
#[derive(Debug)]
struct ProbedContainer {
    pod: Arc<BoundPod>,
    name: String,
    started_at: Timestamp,
    endpoint: Endpoint,
    probes: Vec<ProbeState>,
}

/// A check to carry out, and then its outcome.
struct Check {
    id: ContainerId,
    spec: ProbeSpec,
    endpoint: Endpoint,
    began: Timestamp,
}

// === impl Prober ===

impl Prober {
    pub(crate) fn new(executor: &PodExecutor) -> Self {
        Self {
            runtime: executor.runtime.clone(),
            clock: executor.clock.clone(),
            events: executor.events.clone(),
            state: Mutex::default(),
            added: Notify::new(),
        }
    }

    /// Registers the probes of the running containers of a pod, and removes those of its other containers.
    pub(crate) fn update_pod(&self, pod: &Arc<BoundPod>, observed: &ObservedPod, host: Option<IpAddr>) {
        let mut running = HashSet::new();
        let address = if pod.uses_host_network() {
            host
        } else {
            observed.addresses().first().copied()
        };
        for record in &observed.containers {
            let (Some((_, container)), ContainerState::Running { started_at }) =
                (pod.find_container(&record.name), &record.state)
            else {
                continue;
            };
            let mut specs = probes(container);
            if pod.is_deleted() {
                specs.retain(|spec| spec.kind == ProbeKind::Readiness);
            }
            if specs.is_empty() {
                continue;
            }
            running.insert(record.id.clone());
            let probed = ProbedContainer {
                pod: pod.clone(),
                name: container.name.clone(),
                started_at: *started_at,
                endpoint: Endpoint {
                    container: record.id.clone(),
                    address,
                    ports: container.ports.clone().unwrap_or_default(),
                },
                probes: specs.into_iter().map(ProbeState::new).collect(),
            };
            self.add(&record.id, probed);
        }
        let uid = pod.uid();
        let mut state = self.state.lock();
        state
            .containers
            .retain(|id, container| container.pod.uid() != uid || running.contains(id));
    }

    fn add(&self, id: &ContainerId, probed: ProbedContainer) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some(known) = state.containers.get_mut(id) {
            known.pod = probed.pod;
            let kept: Vec<ProbeKind> = probed.probes.iter().map(|probe| probe.spec.kind).collect();
            known.probes.retain(|probe| kept.contains(&probe.spec.kind));
            return;
        }
        for probe in &probed.probes {
            let first = probed.started_at.saturating_add(probe.spec.initial_delay);
            let due = first.unwrap_or(now).max(now);
            state.due.push(Reverse((due, id.clone(), probe.spec.kind)));
        }
        state.containers.insert(id.clone(), probed);
        drop(state);
        self.added.notify_one();
    }

    /// The latest results of the containers of a pod.
    pub(crate) fn results(&self, observed: &ObservedPod) -> ProbeResults {
        let state = self.state.lock();
        let mut results = ProbeResults::default();
        for record in &observed.containers {
            if let Some(container) = state.containers.get(&record.id) {
                results
                    .by_container
                    .insert(record.id.clone(), container.results());
            }
        }
        results
    }

    /// Carries out probes when they are due, until stopped. A pod with a changed result is reconciled.
    pub(crate) async fn run(&self, records: &Records, keys: mpsc::Sender<Key>, stop: CancellationToken) {
        let mut checks = JoinSet::new();
        loop {
            let next = self.start_due(&mut checks);
            let sleep = async {
                match next {
                    Some(next) => self.clock.sleep(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.added.notified() => {}
                Some(done) = checks.join_next() => {
                    let changed = done.ok().and_then(|(check, outcome)| self.record(check, outcome));
                    if let Some(key) = changed.and_then(|uid| records.wake(&uid)) {
                        // The queue is closed only when the agent stops.
                        let _ = keys.send(key).await;
                    }
                }
                () = sleep => {}
            }
        }
        checks.shutdown().await;
    }

    /// Starts the checks that are due. Returns the time until the next one.
    fn start_due(&self, checks: &mut JoinSet<(Check, Result<Outcome, String>)>) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        loop {
            let Reverse((due, _, _)) = state.due.peek()?;
            if *due > now {
                return Duration::try_from(due.duration_since(now)).ok();
            }
            let Reverse((_, id, kind)) = state.due.pop()?;
            let Some(container) = state.containers.get(&id) else {
                continue;
            };
            let Some(probe) = container.probes.iter().find(|probe| probe.spec.kind == kind) else {
                continue;
            };
            if probe.is_on_hold || (kind != ProbeKind::Startup && !container.has_started()) {
                // Probes that wait for the startup probe are scheduled again when it succeeds.
                continue;
            }
            let check = Check {
                id,
                spec: probe.spec.clone(),
                endpoint: container.endpoint.clone(),
                began: now,
            };
            let (runtime, clock) = (self.runtime.clone(), self.clock.clone());
            checks.spawn(async move {
                let outcome = carry_out(&*runtime, &*clock, &check).await;
                (check, outcome)
            });
        }
    }

    /// Counts an outcome, and schedules the next check. Returns the uid of the pod if a result changed.
    fn record(&self, check: Check, outcome: Result<Outcome, String>) -> Option<String> {
        let mut state = self.state.lock();
        let container = state.containers.get_mut(&check.id)?;
        let kind = check.spec.kind;
        let probe = container
            .probes
            .iter_mut()
            .find(|probe| probe.spec.kind == kind)?;
        let succeeded = outcome.as_ref().is_ok_and(|outcome| outcome.succeeded);
        let has_changed = probe.record(succeeded);
        let (pod, name) = (container.pod.clone(), container.name.clone());
        let next = check
            .began
            .saturating_add(check.spec.period)
            .unwrap_or(Timestamp::MAX);
        let mut due = vec![(next, kind)];
        if kind == ProbeKind::Startup && succeeded && has_changed {
            let others = container.probes.iter().map(|probe| probe.spec.kind);
            due = others
                .filter(|kind| *kind != ProbeKind::Startup)
                .map(|kind| (check.began, kind))
                .collect();
        }
        for (at, kind) in due {
            state.due.push(Reverse((at, check.id.clone(), kind)));
        }
        drop(state);
        if !succeeded {
            self.report(&pod, &name, kind, &outcome);
        }
        has_changed.then(|| pod.uid().to_owned())
    }

    fn report(&self, pod: &BoundPod, name: &str, kind: ProbeKind, outcome: &Result<Outcome, String>) {
        let kind = kind.as_str();
        let message = match outcome {
            Ok(outcome) => format!("{kind} probe failed: {}", outcome.output),
            Err(error) => format!("{kind} probe errored and resulted in unknown state: {error}"),
        };
        self.events.warning(pod, name, "Unhealthy", message);
    }
}

async fn carry_out(runtime: &dyn Runtime, clock: &dyn Clock, request: &Check) -> Result<Outcome, String> {
    let (action, timeout) = (&request.spec.action, request.spec.timeout);
    let mut outcome = check(runtime, clock, (action, timeout), &request.endpoint).await;
    for _ in 1..MAX_TRIES {
        if outcome.is_ok() {
            break;
        }
        outcome = check(runtime, clock, (action, timeout), &request.endpoint).await;
    }
    outcome
}

// === impl ProbedContainer ===

impl ProbedContainer {
    fn has_started(&self) -> bool {
        let mut startup = self
            .probes
            .iter()
            .filter(|probe| probe.spec.kind == ProbeKind::Startup);
        startup.all(|probe| probe.result == Some(true))
    }

    fn results(&self) -> ContainerProbes {
        let result = |kind| {
            let probe = self.probes.iter().find(|probe| probe.spec.kind == kind);
            probe.and_then(|probe| probe.result)
        };
        ContainerProbes {
            startup: result(ProbeKind::Startup),
            liveness: result(ProbeKind::Liveness),
            readiness: result(ProbeKind::Readiness),
        }
    }
}
