//! The periodic tasks of nodes: registering, renewing the Lease, reporting the status.
//!
//! All nodes share one heap of scheduled tasks and one loop. An idle node costs its entries in the heap and nothing else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use serde::Deserialize;
use setpoint_api::{Clock, Status, json};
use setpoint_container_runtime::Runtime;
use setpoint_runtime::{Api, Client, Context};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Machine, RuntimeConfig};
use crate::eviction::NodePressure;
use crate::node_health::NodeHealth;
use crate::shutdown::Shutdown;
use crate::status_update::with_status;
use crate::{lease, node_object};

/// Limit of concurrent tasks.
const MAX_IN_FLIGHT: usize = 256;
/// A failed task is retried after this.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The nodes of an agent and their scheduled tasks.
pub(crate) struct Heartbeat {
    machines: Vec<Arc<Machine>>,
    /// The record of each machine, in the order of `machines`. A task works on a copy and changes its own field.
    records: Vec<NodeRecord>,
    tasks: BinaryHeap<Reverse<ScheduledTask>>,
    lease_renew_interval: Duration,
    status_report_interval: Duration,
    /// The runtime whose health the nodes report; `None` if it is simulated.
    runtime: Option<NodeRuntime>,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// What the health of a node is read from.
#[derive(Debug, Clone)]
struct NodeRuntime {
    runtime: Arc<dyn Runtime>,
    pressure: Arc<NodePressure>,
    shutdown: Option<Shutdown>,
}

impl NodeRuntime {
    async fn health(&self) -> NodeHealth {
        let mut health = NodeHealth::read(&*self.runtime, &self.pressure).await;
        if self.shutdown.as_ref().is_some_and(Shutdown::is_requested) {
            health.not_ready = Some("node is shutting down".to_owned());
        }
        health
    }
}

/// What a node keeps between its tasks.
#[derive(Debug, Clone, Default)]
struct NodeRecord {
    /// The uid of its Node object.
    uid: Option<Arc<str>>,
    /// The resource version of its Lease as last written.
    lease_version: Option<Arc<str>>,
}

/// A task of a machine and when it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ScheduledTask {
    due: Timestamp,
    machine: usize,
    kind: TaskKind,
}

/// The kinds of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TaskKind {
    Register,
    RenewLease,
    ReportStatus,
}

/// A finished task and its outcome.
struct TaskResult {
    scheduled: ScheduledTask,
    outcome: Result<NodeRecord, Status>,
}

impl Heartbeat {
    pub(crate) fn new(config: &Config, context: &Context, pressure: &Arc<NodePressure>) -> Self {
        let now = context.clock.now();
        let register = |machine| {
            Reverse(ScheduledTask {
                due: now,
                machine,
                kind: TaskKind::Register,
            })
        };
        Self {
            machines: config.machines.iter().cloned().map(Arc::new).collect(),
            records: vec![NodeRecord::default(); config.machines.len()],
            tasks: (0..config.machines.len()).map(register).collect(),
            lease_renew_interval: config.lease_renew_interval,
            status_report_interval: config.status_report_interval,
            runtime: match &config.runtime {
                RuntimeConfig::Containers(host) => Some(NodeRuntime {
                    runtime: host.runtime.clone(),
                    pressure: pressure.clone(),
                    shutdown: host.shutdown.clone(),
                }),
                RuntimeConfig::Simulated(_) => None,
            },
            client: context.client.clone(),
            clock: context.clock.clone(),
        }
    }

    /// Runs every task when it is due, until stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut in_flight = JoinSet::new();
        let shutdown = self.runtime.as_ref().and_then(|node| node.shutdown.clone());
        let mut shutdown = std::pin::pin!(OptionFuture::from(shutdown.as_ref().map(Shutdown::requested)));
        let mut is_shutting_down = false;
        loop {
            let next = self.start_due(&mut in_flight);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = in_flight.join_next() => done.into_iter().for_each(|done| self.done(done)),
                () = sleep(&self.clock, next) => {}
                Some(()) = &mut shutdown, if !is_shutting_down => {
                    is_shutting_down = true;
                    self.report_all();
                }
            }
        }
        in_flight.shutdown().await;
    }

    /// Reports the status of all nodes at once.
    fn report_all(&mut self) {
        for machine in 0..self.machines.len() {
            self.plan(machine, TaskKind::ReportStatus, Duration::ZERO);
        }
    }

    /// Starts the tasks that are due. Returns the time until the next one, if the limit allows another.
    fn start_due(&mut self, in_flight: &mut JoinSet<TaskResult>) -> Option<Duration> {
        let now = self.clock.now();
        while in_flight.len() < MAX_IN_FLIGHT {
            let Reverse(scheduled) = *self.tasks.peek()?;
            if scheduled.due > now {
                return Duration::try_from(scheduled.due.duration_since(now)).ok();
            }
            self.tasks.pop();
            let machine = self.machines[scheduled.machine].clone();
            let task = NodeTask {
                machine,
                record: self.records[scheduled.machine].clone(),
                runtime: self.runtime.clone(),
                client: self.client.clone(),
                now,
            };
            in_flight.spawn(async move {
                let outcome = AssertUnwindSafe(task.run(scheduled.kind)).catch_unwind().await;
                // A node whose task panicked must not stop renewing its Lease.
                let outcome = outcome.unwrap_or_else(|_| Err(Status::internal("the task panicked")));
                TaskResult { scheduled, outcome }
            });
        }
        None
    }

    fn done(&mut self, done: TaskResult) {
        let ScheduledTask { machine, kind, .. } = done.scheduled;
        let record = match done.outcome {
            Ok(record) => record,
            Err(status) => {
                let node = &self.machines[machine].name;
                tracing::debug!(%node, task = ?kind, %status, "a node task failed");
                // The Lease may have another version than recorded: it is read again.
                self.records[machine].lease_version = None;
                return self.plan(machine, kind, RETRY_AFTER);
            }
        };
        self.records[machine].merge(kind, record);
        match kind {
            TaskKind::Register => {
                self.plan(machine, TaskKind::RenewLease, Duration::ZERO);
                self.plan(machine, TaskKind::ReportStatus, self.status_report_interval);
            }
            TaskKind::RenewLease => self.plan(machine, TaskKind::RenewLease, self.spread(machine)),
            TaskKind::ReportStatus => self.plan(machine, TaskKind::ReportStatus, self.status_report_interval),
        }
    }

    /// When a node renews its lease next: a little earlier or later by its number, so that nodes that started
    /// together do not renew together for ever.
    fn spread(&self, machine: usize) -> Duration {
        let steps = u32::try_from(machine % 16).unwrap_or(0);
        self.lease_renew_interval - self.lease_renew_interval / 10 + self.lease_renew_interval / 80 * steps
    }

    fn plan(&mut self, machine: usize, kind: TaskKind, after: Duration) {
        let due = self.clock.now().saturating_add(after).unwrap_or(Timestamp::MAX);
        self.tasks.push(Reverse(ScheduledTask { due, machine, kind }));
    }
}

// === impl NodeRecord ===

impl NodeRecord {
    /// Merges the record of a finished task: each kind of task owns one field.
    fn merge(&mut self, kind: TaskKind, learned: Self) {
        match kind {
            TaskKind::Register | TaskKind::ReportStatus => self.uid = learned.uid,
            TaskKind::RenewLease => self.lease_version = learned.lease_version,
        }
    }
}

/// The status of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeView {
    status: NodeStatus,
}

/// A task in flight.
struct NodeTask {
    machine: Arc<Machine>,
    record: NodeRecord,
    runtime: Option<NodeRuntime>,
    client: Client,
    now: Timestamp,
}

impl NodeTask {
    async fn run(mut self, kind: TaskKind) -> Result<NodeRecord, Status> {
        match kind {
            TaskKind::Register => self.register().await?,
            TaskKind::RenewLease => self.renew_lease().await?,
            TaskKind::ReportStatus => self.report_status().await?,
        }
        Ok(self.record)
    }

    /// Creates the Node, or adopts the one of a previous agent.
    async fn register(&mut self) -> Result<(), Status> {
        let node = node_object::node(self.now, &self.machine, &self.health().await);
        let body = json::to_vec(&node).map_err(Status::internal)?;
        match self.client.all::<Node>().dynamic().create(body).await {
            Ok(created) => self.record.uid = Some(created.uid().into()),
            Err(status) if status.is_already_exists() => self.report_status().await?,
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Writes the node's status. A Node that was deleted is not recreated.
    async fn report_status(&mut self) -> Result<(), Status> {
        let nodes: Api<Node> = self.client.all();
        let found = match nodes.get(&self.machine.name).await {
            Err(status) if status.is_not_found() => return Ok(()),
            found => found?,
        };
        let old: NodeView = found.decode().map_err(Status::internal)?;
        let status = node_object::status(self.now, &self.machine, &old.status, &self.health().await);
        self.record.uid = Some(found.uid().into());
        if !node_object::is_due(self.now, &old.status, &status) {
            return Ok(());
        }
        let body = with_status(found.stored(), &status)?;
        let name = &self.machine.name;
        nodes.dynamic().update_subresource(name, "status", body).await?;
        Ok(())
    }

    async fn health(&self) -> NodeHealth {
        match &self.runtime {
            Some(node) => node.health().await,
            None => NodeHealth::default(),
        }
    }

    async fn renew_lease(&mut self) -> Result<(), Status> {
        let leases: Api<Lease> = self.client.namespaced(lease::NAMESPACE);
        if self.record.lease_version.is_none() {
            self.record.lease_version = match leases.get(&self.machine.name).await {
                Ok(found) => Some(found.resource_version().to_string().into()),
                Err(status) if status.is_not_found() => None,
                Err(status) => return Err(status),
            };
        }
        let (uid, version) = (self.record.uid.as_deref(), self.record.lease_version.as_deref());
        let lease = lease::lease(self.now, &self.machine.name, uid, version);
        let written = match version {
            Some(_) => leases.update(&lease).await?,
            None => leases.create(&lease).await?,
        };
        self.record.lease_version = Some(written.resource_version().to_string().into());
        Ok(())
    }
}

async fn sleep(clock: &Arc<dyn Clock>, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}
