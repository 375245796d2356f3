//! [`SimulatedRuntime`]: runs no containers: they start, run and exit by the clock alone.
//!
//! Everything else about its pods is real, so that a cluster of thousands of nodes behaves as one would, on one machine. A
//! pod costs its entries in [`state`] and nothing else: one task emits the events of all of them. Annotations of a pod
//! ([`rules`]) and rules of the configuration let it fail, exit or take long. A restarted agent adopts what its predecessor reported in pod statuses.

mod addresses;
mod adoption;
mod images;
mod pod_rule;
pub(crate) mod readiness;
pub(crate) mod rules;
mod shell;
mod state;
mod streams;
#[cfg(test)]
mod tests;
pub mod usage;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_container_runtime::container::Resources;
use setpoint_container_runtime::{
    ContainerConfig, ContainerId, ContainerRecord, ContainerService, ContainerStats, Error, ErrorKind, Event,
    EventReceiver, Runtime, RuntimeFuture, RuntimeStatus, RuntimeVersion, SandboxConfig, SandboxId,
    SandboxRecord, SandboxService, StatsService,
};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::config::Machine;
use state::State;

pub use pod_rule::{PodRule, PodSelector};

/// The name of the runtime, which is the scheme of its container ids.
pub const NAME: &str = "simulated";

/// The prefix of the annotations that specify what the containers of a pod do.
pub(crate) const ANNOTATION_PREFIX: &str = "simulated.setpoint.dev/";

/// Events that a receiver may lag behind; one that lags further looks at all pods.
const EVENT_CAPACITY: usize = 4096;

/// How long simulated pods take, besides the rules of each, and which images there are.
#[derive(Debug, Clone, Default)]
pub struct Simulation {
    /// How long a pod takes to start.
    pub starting: Duration,
    /// How long a container takes to stop, if its grace period is not shorter.
    pub stopping: Duration,
    /// How long a command takes to start. kubectl drops output that arrives before it has opened all its streams, which
    /// it does while it reads already; a command in a container never starts that early.
    pub command_start: Duration,
    /// Prefixes of the names of images that cannot be pulled; all others are present.
    pub unavailable_images: Vec<String>,
    /// Rules of pods, of which the first that matches applies. Annotations of a pod have precedence.
    pub rules: Vec<PodRule>,
}

/// Containers that use no resources of the machine.
#[derive(Debug)]
pub struct SimulatedRuntime {
    simulation: Simulation,
    machines: Arc<HashMap<CompactString, Machine>>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    events: broadcast::Sender<Event>,
    /// Notified when a container was started that will exit or be ready later.
    timer: Notify,
}

impl SimulatedRuntime {
    /// A runtime for the pods of these machines.
    pub fn new(
        simulation: Simulation,
        machines: Arc<HashMap<CompactString, Machine>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            simulation,
            machines,
            clock,
            state: Mutex::default(),
            events: broadcast::channel(EVENT_CAPACITY).0,
            timer: Notify::new(),
        }
    }

    /// Emits the events of containers that exit, until stopped.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            let now = self.clock.now();
            let (due, next) = self.state.lock().take_due(now);
            for uid in due {
                let pod_uid = Some(uid.to_string());
                // Without a receiver there is none to notify.
                let _ = self.events.send(Event { pod_uid });
            }
            let sleep = async {
                match next {
                    Some(next) => {
                        let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
                        self.clock.sleep(wait).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.timer.notified() => {}
                () = sleep => {}
            }
        }
    }

    /// Waits for this time. Without a time the call completes at once, and its caller needs no task for it.
    async fn pass(&self, time: Duration) {
        if !time.is_zero() {
            self.clock.sleep(time).await;
        }
    }

    fn machine(&self, node: &str) -> Result<&Machine, Error> {
        let machine = self.machines.get(node);
        machine.ok_or_else(|| Error::new(ErrorKind::Other, format!("there is no simulated node {node:?}")))
    }
}

impl SandboxService for SimulatedRuntime {
    fn run_sandbox(&self, mut config: SandboxConfig) -> RuntimeFuture<'_, SandboxId> {
        pod_rule::apply(&self.simulation.rules, &mut config);
        Box::pin(async move {
            let rules = rules::Rules::of_pod(&config.annotations, &config.pod.uid);
            self.pass(self.simulation.starting + rules.starts_after).await;
            let machine = self.machine(&config.pod.node)?;
            self.state
                .lock()
                .add_sandbox(&config, machine, None, self.clock.now())
        })
    }

    fn stop_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()> {
        self.state.lock().stop_sandbox(id, self.clock.now());
        ready(Ok(()))
    }

    fn remove_sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, ()> {
        self.state.lock().remove_sandbox(id, self.clock.now());
        ready(Ok(()))
    }

    fn sandbox(&self, id: &SandboxId) -> RuntimeFuture<'_, Option<SandboxRecord>> {
        ready(Ok(self.state.lock().sandbox(id)))
    }

    fn list_sandboxes(&self) -> RuntimeFuture<'_, Vec<SandboxRecord>> {
        ready(Ok(self.state.lock().sandboxes()))
    }
}

impl ContainerService for SimulatedRuntime {
    fn create_container<'a>(
        &'a self,
        sandbox: &'a SandboxId,
        config: ContainerConfig,
        _: &'a SandboxConfig,
    ) -> RuntimeFuture<'a, ContainerId> {
        ready(
            self.state
                .lock()
                .create_container(sandbox, config, self.clock.now()),
        )
    }

    fn start_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        let started = self.state.lock().start_container(id, self.clock.now());
        if matches!(started, Ok(true)) {
            self.timer.notify_one();
        }
        ready(started.map(|_| ()))
    }

    fn stop_container(&self, id: &ContainerId, grace: Duration) -> RuntimeFuture<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let now = self.clock.now();
            let is_running = |state: &State| state.find_container(&id).is_some_and(|one| one.is_running(now));
            if is_running(&self.state.lock()) {
                self.pass(self.simulation.stopping.min(grace)).await;
            }
            self.state.lock().stop_container(&id, self.clock.now());
            Ok(())
        })
    }

    fn remove_container(&self, id: &ContainerId) -> RuntimeFuture<'_, ()> {
        self.state.lock().remove_container(id);
        ready(Ok(()))
    }

    fn container(&self, id: &ContainerId) -> RuntimeFuture<'_, Option<ContainerRecord>> {
        ready(Ok(self.state.lock().container(id, self.clock.now())))
    }

    fn list_containers(&self) -> RuntimeFuture<'_, Vec<ContainerRecord>> {
        ready(Ok(self.state.lock().containers(self.clock.now())))
    }

    fn update_container(&self, id: &ContainerId, _: Resources) -> RuntimeFuture<'_, ()> {
        let exists = self.state.lock().find_container(id).is_some();
        ready(
            exists
                .then_some(())
                .ok_or_else(|| state::not_found("container", &id.0)),
        )
    }

    fn reopen_log(&self, _: &ContainerId) -> RuntimeFuture<'_, ()> {
        ready(Ok(()))
    }
}

impl StatsService for SimulatedRuntime {
    fn container_stats(&self) -> RuntimeFuture<'_, Vec<ContainerStats>> {
        ready(Ok(self.state.lock().stats(self.clock.now())))
    }
}

impl Runtime for SimulatedRuntime {
    fn version(&self) -> RuntimeFuture<'_, RuntimeVersion> {
        ready(Ok(RuntimeVersion {
            name: NAME.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }

    fn status(&self) -> RuntimeFuture<'_, RuntimeStatus> {
        ready(Ok(RuntimeStatus {
            runtime_not_ready: None,
            network_not_ready: None,
        }))
    }

    fn subscribe(&self) -> EventReceiver {
        self.events.subscribe()
    }
}

/// A call that completes at once.
fn ready<'a, T: Send + 'a>(result: Result<T, Error>) -> RuntimeFuture<'a, T> {
    Box::pin(std::future::ready(result))
}
