//! [`State`]: the sandboxes and containers of a simulated runtime. The time is an argument of every read.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::go_duration;
use setpoint_container_runtime::{
    ContainerConfig, ContainerId, ContainerRecord, ContainerState, ContainerStats, Error, ErrorKind,
    ExitStatus, PodIdentity, SandboxConfig, SandboxId, SandboxRecord, SandboxState,
};

use super::addresses::Addresses;
use super::rules::{LOG, READY_AFTER, Rules};
use super::usage::Usage;
use crate::config::Machine;
use crate::pod::plan::CONTAINER_HASH;

/// The sandboxes and containers of all simulated nodes.
#[derive(Debug, Default)]
pub(super) struct State {
    sandboxes: HashMap<SandboxId, Sandbox>,
    containers: HashMap<ContainerId, Container>,
    addresses: Addresses,
    /// When containers exit or are ready, with the uids of their pods.
    timers: BinaryHeap<Reverse<(Timestamp, Arc<str>)>>,
}

#[derive(Debug)]
struct Sandbox {
    pod: PodIdentity,
    uid: Arc<str>,
    attempt: u32,
    state: SandboxState,
    created_at: Timestamp,
    /// The number of its machine and its address there; `None` with the host's network.
    address: Option<(u32, Ipv4Addr)>,
    rules: Arc<Rules>,
    containers: Vec<ContainerId>,
}

#[derive(Debug)]
pub(super) struct Container {
    sandbox: SandboxId,
    name: CompactString,
    attempt: u32,
    image: CompactString,
    hash: CompactString,
    created_at: Timestamp,
    state: ContainerState,
    /// When it exits by itself, and its exit code.
    end: Option<(Timestamp, i32)>,
    /// After how long it exits once it is started.
    lifetime: Option<(Duration, i32)>,
    usage: Usage,
    pub(super) rules: Arc<Rules>,
    pub(super) env: Vec<(String, String)>,
}

/// A container that another agent left running, by the pod's status.
#[derive(Debug)]
pub(super) struct AdoptedContainer {
    pub(super) id: ContainerId,
    pub(super) attempt: u32,
    pub(super) state: ContainerState,
}

// === impl State ===

impl State {
    pub(super) fn add_sandbox(
        &mut self,
        config: &SandboxConfig,
        machine: &Machine,
        preferred: Option<Ipv4Addr>,
        created_at: Timestamp,
    ) -> Result<SandboxId, Error> {
        let address = if config.namespaces.host_network {
            None
        } else {
            let address = self.addresses.allocate(machine, preferred).ok_or_else(|| {
                let message = format!("no pod address is left on node {:?}", machine.name);
                Error::new(ErrorKind::Other, message)
            })?;
            Some((machine.number, address))
        };
        let uid = &config.pod.uid;
        let id = SandboxId(numbered(uid, config.attempt));
        let sandbox = Sandbox {
            pod: config.pod.clone(),
            uid: uid.as_str().into(),
            attempt: config.attempt,
            state: SandboxState::Ready,
            created_at,
            address,
            rules: Arc::new(Rules::of_pod(&config.annotations, uid)),
            containers: Vec::new(),
        };
        self.sandboxes.insert(id.clone(), sandbox);
        Ok(id)
    }

    /// Stops the sandbox and its containers, and releases its address.
    pub(super) fn stop_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        let Some(sandbox) = self.sandboxes.get_mut(id) else {
            return;
        };
        sandbox.state = SandboxState::NotReady;
        let address = sandbox.address.take();
        let containers = sandbox.containers.clone();
        if let Some((machine, address)) = address {
            self.addresses.release(machine, address);
        }
        for id in &containers {
            self.stop_container(id, now);
        }
    }

    pub(super) fn remove_sandbox(&mut self, id: &SandboxId, now: Timestamp) {
        self.stop_sandbox(id, now);
        let removed = self.sandboxes.remove(id);
        for id in removed.iter().flat_map(|sandbox| &sandbox.containers) {
            self.containers.remove(id);
        }
    }

    pub(super) fn create_container(
        &mut self,
        sandbox_id: &SandboxId,
        config: ContainerConfig,
        now: Timestamp,
    ) -> Result<ContainerId, Error> {
        let sandbox = self.sandboxes.get_mut(sandbox_id);
        let sandbox = sandbox.ok_or_else(|| not_found("sandbox", &sandbox_id.0))?;
        if let Some(text) = &sandbox.rules.create_error {
            return Err(Error::new(ErrorKind::CreateContainer, text.clone()));
        }
        let id = ContainerId(numbered(
            &format!("{}/{}", sandbox.uid, config.name),
            config.attempt,
        ));
        sandbox.containers.push(id.clone());
        let container = Container {
            sandbox: sandbox_id.clone(),
            name: config.name.into(),
            attempt: config.attempt,
            image: config.user_specified_image.into(),
            hash: config
                .annotations
                .get(CONTAINER_HASH)
                .map(String::as_str)
                .unwrap_or_default()
                .into(),
            created_at: now,
            state: ContainerState::Created,
            end: None,
            lifetime: sandbox.rules.end(&config.annotations),
            usage: Usage::new(&sandbox.rules, &config.annotations),
            rules: sandbox.rules.clone(),
            env: config.env,
        };
        self.containers.insert(id.clone(), container);
        Ok(id)
    }

    /// Starts a container. Returns whether it will exit or be ready by itself later.
    pub(super) fn start_container(&mut self, id: &ContainerId, now: Timestamp) -> Result<bool, Error> {
        let container = self
            .containers
            .get_mut(id)
            .ok_or_else(|| not_found("container", &id.0))?;
        if let Some(text) = &container.rules.start_error {
            return Err(Error::new(ErrorKind::StartContainer, text.clone()));
        }
        container.state = ContainerState::Running { started_at: now };
        Ok(self.set_timers(id, now))
    }

    /// Sets when a container that was started then is ready and exits. Returns whether any of it is later than at once.
    fn set_timers(&mut self, id: &ContainerId, started: Timestamp) -> bool {
        let Some(container) = self.containers.get_mut(id) else {
            return false;
        };
        let later = |after: Duration| started.saturating_add(after).unwrap_or(Timestamp::MAX);
        let mut due = Vec::new();
        if let Some((lifetime, exit_code)) = container.lifetime {
            container.end = Some((later(lifetime), exit_code));
            due.extend((!lifetime.is_zero()).then(|| later(lifetime)));
        }
        due.extend(container.rules.ready_after.map(later));
        let Some(sandbox) = self.sandboxes.get(&container.sandbox) else {
            return false;
        };
        let is_any = !due.is_empty();
        let timers = due.into_iter().map(|at| Reverse((at, sandbox.uid.clone())));
        self.timers.extend(timers);
        is_any
    }

    /// Adds a container in the state that another agent reported.
    pub(super) fn adopt_container(
        &mut self,
        sandbox: &SandboxId,
        config: ContainerConfig,
        adopted: AdoptedContainer,
    ) -> Result<(), Error> {
        let started = match &adopted.state {
            ContainerState::Running { started_at } => Some(*started_at),
            _ => None,
        };
        let created_at = match &adopted.state {
            ContainerState::Exited(exit) => exit.started_at,
            _ => started.unwrap_or(Timestamp::UNIX_EPOCH),
        };
        let id = self.create_container(sandbox, config, created_at)?;
        let Some(mut container) = self.containers.remove(&id) else {
            return Ok(());
        };
        container.state = adopted.state;
        container.attempt = adopted.attempt;
        if let Some(sandbox) = self.sandboxes.get_mut(sandbox) {
            sandbox.containers.retain(|own| *own != id);
            sandbox.containers.push(adopted.id.clone());
        }
        self.containers.insert(adopted.id.clone(), container);
        if let Some(started) = started {
            self.set_timers(&adopted.id, started);
        }
        Ok(())
    }

    pub(super) fn stop_container(&mut self, id: &ContainerId, now: Timestamp) {
        let Some(container) = self.containers.get_mut(id) else {
            return;
        };
        container.state = match container.state(now) {
            ContainerState::Running { started_at } => exited(started_at, now, 0),
            state => state,
        };
    }

    pub(super) fn remove_container(&mut self, id: &ContainerId) {
        let Some(container) = self.containers.remove(id) else {
            return;
        };
        if let Some(sandbox) = self.sandboxes.get_mut(&container.sandbox) {
            sandbox.containers.retain(|own| own != id);
        }
    }

    pub(super) fn sandbox(&self, id: &SandboxId) -> Option<SandboxRecord> {
        Some(self.sandboxes.get(id)?.record(id))
    }

    pub(super) fn sandboxes(&self) -> Vec<SandboxRecord> {
        self.sandboxes
            .iter()
            .map(|(id, sandbox)| sandbox.record(id))
            .collect()
    }

    pub(super) fn find_container(&self, id: &ContainerId) -> Option<&Container> {
        self.containers.get(id)
    }

    pub(super) fn container(&self, id: &ContainerId, now: Timestamp) -> Option<ContainerRecord> {
        Some(self.containers.get(id)?.record(id, now))
    }

    pub(super) fn containers(&self, now: Timestamp) -> Vec<ContainerRecord> {
        let containers = self.containers.iter();
        containers
            .map(|(id, container)| container.record(id, now))
            .collect()
    }

    /// What the running containers use.
    pub(super) fn stats(&self, now: Timestamp) -> Vec<ContainerStats> {
        let containers = self.containers.iter();
        containers
            .filter_map(|(id, container)| container.stats(id, now))
            .collect()
    }

    /// The uids of the pods that have a container that has exited or is ready by now, and when the next one does.
    pub(super) fn take_due(&mut self, now: Timestamp) -> (Vec<Arc<str>>, Option<Timestamp>) {
        let mut due = Vec::new();
        while let Some(Reverse((at, _))) = self.timers.peek() {
            if *at > now {
                return (due, Some(*at));
            }
            due.extend(self.timers.pop().map(|Reverse((_, uid))| uid));
        }
        (due, None)
    }
}

// === impl Sandbox ===

impl Sandbox {
    fn record(&self, id: &SandboxId) -> SandboxRecord {
        SandboxRecord {
            id: id.clone(),
            pod: self.pod.clone(),
            attempt: self.attempt,
            state: self.state,
            created_at: self.created_at,
            addresses: self
                .address
                .iter()
                .map(|(_, address)| (*address).into())
                .collect(),
        }
    }
}

// === impl Container ===

impl Container {
    /// The state, in which a container whose time is over has exited.
    fn state(&self, now: Timestamp) -> ContainerState {
        match (&self.state, self.end) {
            (ContainerState::Running { started_at }, Some((at, exit_code))) if at <= now => {
                exited(*started_at, at, exit_code)
            }
            (state, _) => state.clone(),
        }
    }

    pub(super) fn is_running(&self, now: Timestamp) -> bool {
        matches!(self.state(now), ContainerState::Running { .. })
    }

    /// What it has used since its start, if it runs.
    fn stats(&self, id: &ContainerId, now: Timestamp) -> Option<ContainerStats> {
        let ContainerState::Running { started_at } = self.state(now) else {
            return None;
        };
        let seconds = now.duration_since(started_at).as_secs_f64().max(0.0);
        Some(ContainerStats {
            id: id.clone(),
            sandbox: Some(self.sandbox.clone()),
            time: now,
            cpu_nanoseconds: (self.usage.cpu_nanocores as f64 * seconds) as u64,
            working_set_bytes: self.usage.memory_bytes,
            writable_layer_bytes: 0,
        })
    }

    fn record(&self, id: &ContainerId, now: Timestamp) -> ContainerRecord {
        let mut annotations = BTreeMap::new();
        if !self.hash.is_empty() {
            annotations.insert(CONTAINER_HASH.to_owned(), self.hash.to_string());
        }
        annotations.extend(self.rules.log.iter().map(|log| (LOG.to_owned(), log.clone())));
        let ready_after = self.rules.ready_after;
        annotations.extend(ready_after.map(|after| (READY_AFTER.to_owned(), go_duration::format(after))));
        ContainerRecord {
            id: id.clone(),
            sandbox: self.sandbox.clone(),
            name: self.name.to_string(),
            attempt: self.attempt,
            image: self.image.to_string(),
            image_id: format!("{}://{}", super::NAME, self.image),
            labels: BTreeMap::new(),
            annotations,
            created_at: self.created_at,
            state: self.state(now),
            log_path: String::new(),
            resources: None,
            user: None,
        }
    }
}

fn exited(started_at: Timestamp, finished_at: Timestamp, exit_code: i32) -> ContainerState {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    ContainerState::Exited(ExitStatus {
        started_at,
        finished_at,
        exit_code,
        reason: reason.to_owned(),
        message: String::new(),
    })
}

/// An id that is different for each attempt.
fn numbered(base: &str, attempt: u32) -> String {
    match attempt {
        0 => base.to_owned(),
        attempt => format!("{base}/{attempt}"),
    }
}

pub(super) fn not_found(what: &str, id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{what} {id:?} not found"))
}
