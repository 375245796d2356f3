//! The duties of nodes that come round by the clock: registering, renewing the lease, reporting the status.
//!
//! All nodes share one heap of duties and one loop. A node at rest costs its place in the heap and nothing else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use setpoint_api::{Clock, Status};
use setpoint_runtime::{Client, Handle};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Machine};
use crate::{lease, register};

/// So many duties may be under way at once.
const MAX_UNDER_WAY: usize = 256;
/// A duty that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// The nodes of an agent and what they have to do when.
pub(crate) struct Heartbeat {
    machines: Vec<Arc<Machine>>,
    /// What each machine remembers, in the order of `machines`. A duty works on a copy and changes its own field.
    records: Vec<Record>,
    duties: BinaryHeap<Reverse<Duty>>,
    renew_every: Duration,
    report_every: Duration,
    client: Client,
    clock: Arc<dyn Clock>,
}

/// What a node remembers between its duties.
#[derive(Debug, Clone, Default)]
struct Record {
    /// The uid of its Node object.
    uid: Option<Arc<str>>,
    /// The version of its lease that it last wrote.
    lease: Option<Arc<str>>,
}

/// Something that a machine has to do at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Duty {
    due: Timestamp,
    machine: usize,
    kind: Kind,
}

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Register,
    Renew,
    Report,
}

/// A duty that was done, or not.
struct Done {
    duty: Duty,
    outcome: Result<Record, Status>,
}

impl Heartbeat {
    pub(crate) fn new(config: &Config, client: Client, clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let register = |machine| {
            Reverse(Duty {
                due: now,
                machine,
                kind: Kind::Register,
            })
        };
        Self {
            machines: config.machines.iter().cloned().map(Arc::new).collect(),
            records: vec![Record::default(); config.machines.len()],
            duties: (0..config.machines.len()).map(register).collect(),
            renew_every: config.renew_every,
            report_every: config.report_every,
            client,
            clock,
        }
    }

    /// Does every duty when it is due, until stopped.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut under_way = JoinSet::new();
        loop {
            let next = self.begin_due(&mut under_way);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(done) = under_way.join_next() => done.into_iter().for_each(|done| self.done(done)),
                () = sleep(&self.clock, next) => {}
            }
        }
        under_way.shutdown().await;
    }

    /// Begins what is due; how long until the next is, if there is room for it.
    fn begin_due(&mut self, under_way: &mut JoinSet<Done>) -> Option<Duration> {
        let now = self.clock.now();
        while under_way.len() < MAX_UNDER_WAY {
            let Reverse(duty) = *self.duties.peek()?;
            if duty.due > now {
                return Duration::try_from(duty.due.duration_since(now)).ok();
            }
            self.duties.pop();
            let machine = self.machines[duty.machine].clone();
            let work = Work {
                machine,
                record: self.records[duty.machine].clone(),
                client: self.client.clone(),
                now,
            };
            under_way.spawn(async move {
                let outcome = work.carry_out(duty.kind).await;
                Done { duty, outcome }
            });
        }
        None
    }

    fn done(&mut self, done: Done) {
        let Duty { machine, kind, .. } = done.duty;
        let record = match done.outcome {
            Ok(record) => record,
            Err(status) => {
                let node = &self.machines[machine].name;
                tracing::debug!(%node, duty = ?kind, %status, "a node's duty failed");
                // A lease that was not as remembered is read again.
                self.records[machine].lease = None;
                return self.plan(machine, kind, RETRY);
            }
        };
        self.records[machine].keep(kind, record);
        match kind {
            Kind::Register => {
                self.plan(machine, Kind::Renew, Duration::ZERO);
                self.plan(machine, Kind::Report, self.report_every);
            }
            Kind::Renew => self.plan(machine, Kind::Renew, self.spread(machine)),
            Kind::Report => self.plan(machine, Kind::Report, self.report_every),
        }
    }

    /// When a node renews its lease next: a little earlier or later by its number, so that nodes that started
    /// together do not renew together for ever.
    fn spread(&self, machine: usize) -> Duration {
        let steps = u32::try_from(machine % 16).unwrap_or(0);
        self.renew_every - self.renew_every / 10 + self.renew_every / 80 * steps
    }

    fn plan(&mut self, machine: usize, kind: Kind, after: Duration) {
        let due = self.clock.now().saturating_add(after).unwrap_or(Timestamp::MAX);
        self.duties.push(Reverse(Duty { due, machine, kind }));
    }
}

// === impl Record ===

impl Record {
    /// Takes over what a duty learned: each kind of duty has its own field to tell.
    fn keep(&mut self, kind: Kind, learned: Self) {
        match kind {
            Kind::Register | Kind::Report => self.uid = learned.uid,
            Kind::Renew => self.lease = learned.lease,
        }
    }
}

/// A duty under way.
struct Work {
    machine: Arc<Machine>,
    record: Record,
    client: Client,
    now: Timestamp,
}

impl Work {
    async fn carry_out(mut self, kind: Kind) -> Result<Record, Status> {
        match kind {
            Kind::Register => self.register().await?,
            Kind::Renew => self.renew().await?,
            Kind::Report => self.report().await?,
        }
        Ok(self.record)
    }

    /// Creates the node, or takes it over from an agent before this one.
    async fn register(&mut self) -> Result<(), Status> {
        let node = register::node(self.now, &self.machine);
        match self.client.all::<Node>().create(&node).await {
            Ok(created) => self.record.uid = Some(created.uid().into()),
            Err(status) if status.is_already_exists() => self.report().await?,
            Err(status) => return Err(status),
        }
        Ok(())
    }

    /// Writes the node's status. A node that somebody deleted stays deleted.
    async fn report(&mut self) -> Result<(), Status> {
        let nodes: Handle<Node> = self.client.all();
        let found = match nodes.get(&self.machine.name).await {
            Err(status) if status.is_not_found() => return Ok(()),
            found => found?,
        };
        let mut node = found.to_owned()?;
        let old = node.status.take().unwrap_or_default();
        node.status = Some(register::status(self.now, &self.machine, &old));
        let written = nodes.update_status(&node).await?;
        self.record.uid = Some(written.uid().into());
        Ok(())
    }

    async fn renew(&mut self) -> Result<(), Status> {
        let leases: Handle<Lease> = self.client.namespaced(lease::NAMESPACE);
        if self.record.lease.is_none() {
            self.record.lease = match leases.get(&self.machine.name).await {
                Ok(found) => Some(found.resource_version().to_string().into()),
                Err(status) if status.is_not_found() => None,
                Err(status) => return Err(status),
            };
        }
        let (uid, version) = (self.record.uid.as_deref(), self.record.lease.as_deref());
        let lease = lease::lease(self.now, &self.machine.name, uid, version);
        let written = match version {
            Some(_) => leases.update(&lease).await?,
            None => leases.create(&lease).await?,
        };
        self.record.lease = Some(written.resource_version().to_string().into());
        Ok(())
    }
}

async fn sleep(clock: &Arc<dyn Clock>, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}
