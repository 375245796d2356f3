//! The scheduling loop: applies cache changes to the snapshot and the queue, runs one scheduling cycle after the other,
//! binds in the background.
//!
//! One task owns the snapshot and the queue, so that a scheduling cycle never waits for a lock. Bindings and status
//! updates run as tasks beside it; their outcomes come back to the loop as events.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;
use setpoint_api::{Change, Clock, Key, Status, Stored};
use setpoint_runtime::manager::RunnableFuture;
use setpoint_runtime::{Cache, Context, Error, Object, Subscription, TypedObject, retry_on_conflict};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bind::{BindOutcome, BindResult, bind};
use crate::cycle::{FitError, find_node};
use crate::framework::Profile;
use crate::pod_info::PodInfo;
use crate::queue::Queue;
use crate::report;
use crate::snapshot::{QueueingHint, Snapshot};

/// The default `spec.schedulerName` of a pod.
pub const DEFAULT_NAME: &str = "default-scheduler";

/// The field manager of what the scheduler writes, as Kubernetes derives it from the user agent of kube-scheduler.
const FIELD_MANAGER: &str = "kube-scheduler";

/// Limit of concurrent bindings and status updates; at the limit the loop waits for one to finish.
const MAX_IN_FLIGHT: usize = 512;
/// Limit of scheduling cycles before the loop applies cache changes again.
const MAX_CYCLES_PER_TURN: usize = 64;

/// Attempts to write the PodScheduled condition when updates conflict.
const STATUS_UPDATE_ATTEMPTS: usize = 5;

/// Configuration of a scheduler.
#[derive(Debug)]
pub struct Config {
    /// It schedules the pods with this `spec.schedulerName`.
    pub name: String,
    pub profile: Profile,
}

/// A running scheduler.
struct Scheduler {
    config: Config,
    context: Context,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    snapshot: Snapshot,
    queue: Queue,
    /// Index of the node at which the next cycle starts.
    start: usize,
    in_flight: JoinSet<Option<BindOutcome>>,
}

/// An event that wakes the loop.
enum LoopEvent {
    Stopped,
    Pods(Vec<Change>),
    Nodes(Vec<Change>),
    TaskFinished(Option<BindOutcome>),
    /// The backoff or wait of a queued pod is over.
    TimerElapsed,
    /// A subscription fell behind and lost changes: everything is listed again.
    Lagged,
}

/// Schedules pods until stopped.
pub fn run(context: Context, config: Config, stop: CancellationToken) -> RunnableFuture {
    Box::pin(schedule_all(
        context.with_field_manager(FIELD_MANAGER),
        config,
        stop,
    ))
}

async fn schedule_all(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let pods = context.cache(&Pod::resource().group_resource())?;
    let nodes = context.cache(&Node::resource().group_resource())?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = async { tokio::join!(pods.synced(), nodes.synced()); } => {}
    }
    let events = context.events.for_component(&config.name);
    let scheduler = Scheduler {
        config,
        context: Context { events, ..context },
        pods,
        nodes,
        snapshot: Snapshot::default(),
        queue: Queue::default(),
        start: 0,
        in_flight: JoinSet::new(),
    };
    scheduler.run(stop).await;
    Ok(())
}

impl Scheduler {
    async fn run(mut self, stop: CancellationToken) {
        let (mut pods, mut nodes) = self.read_all();
        loop {
            let busy = self.schedule_active();
            let event = self.wait(&mut pods, &mut nodes, &stop, busy).await;
            match event {
                LoopEvent::Stopped => break,
                LoopEvent::Pods(changes) => changes.iter().for_each(|change| self.pod_changed(change)),
                LoopEvent::Nodes(changes) => changes.iter().for_each(|change| self.node_changed(change)),
                LoopEvent::TaskFinished(finished) => finished.into_iter().for_each(|one| self.finished(one)),
                LoopEvent::TimerElapsed => self.queue.flush_due(self.context.clock.now()),
                LoopEvent::Lagged => (pods, nodes) = self.read_all(),
            }
        }
        self.in_flight.shutdown().await;
    }

    /// Lists everything again, and subscribes to the changes from there.
    fn read_all(&mut self) -> (Subscription, Subscription) {
        let (mut pods, mut nodes) = (subscribe(&self.pods), subscribe(&self.nodes));
        (self.snapshot, self.queue) = Default::default();
        for node in nodes.initial.take().iter().flat_map(|all| all.iter()) {
            self.snapshot.set_node(node);
        }
        for pod in pods.initial.take().iter().flat_map(|all| all.iter()) {
            self.update_pod(pod);
        }
        (pods, nodes)
    }

    /// Waits for the next event; while more pods are active, only takes an event that is already there.
    async fn wait(
        &mut self,
        pods: &mut Subscription,
        nodes: &mut Subscription,
        stop: &CancellationToken,
        busy: bool,
    ) -> LoopEvent {
        let now = self.context.clock.now();
        let due = match (busy, self.queue.next_due()) {
            (true, _) => Some(Duration::ZERO),
            (false, due) => due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default()),
        };
        let clock = &self.context.clock;
        tokio::select! {
            biased;
            () = stop.cancelled() => LoopEvent::Stopped,
            Some(ended) = self.in_flight.join_next() => LoopEvent::TaskFinished(ended.ok().flatten()),
            batch = nodes.next() => batch.map_or(LoopEvent::Lagged, |batch| LoopEvent::Nodes(batch.changes().to_vec())),
            batch = pods.next() => batch.map_or(LoopEvent::Lagged, |batch| LoopEvent::Pods(batch.changes().to_vec())),
            () = sleep(clock, due) => LoopEvent::TimerElapsed,
        }
    }

    fn pod_changed(&mut self, change: &Change) {
        match change {
            Change::Deleted { last, .. } => self.remove_pod_entry(last.key()),
            Change::Modified { old, new } if is_irrelevant(old, new) => {}
            Change::Added(new) | Change::Modified { new, .. } => self.update_pod(new),
        }
    }

    fn remove_pod_entry(&mut self, key: &Key) {
        self.queue.remove(key);
        let effect = self.snapshot.remove_pod(key);
        self.apply_hint(effect);
    }

    fn update_pod(&mut self, object: &Stored) {
        let Some(pod) = PodInfo::read(object) else {
            return;
        };
        if pod.needs_scheduling_by(&self.config.name) {
            // A pod that is assumed on a node is being bound; this version of it is older than that.
            if !self.snapshot.contains(&pod.key, &pod.uid) {
                self.queue.update(pod);
            }
            return;
        }
        self.queue.remove(&pod.key);
        let effect = self.snapshot.set_pod(pod);
        self.apply_hint(effect);
    }

    fn node_changed(&mut self, change: &Change) {
        if change.is_deletion() {
            return self.snapshot.remove_node(change.key().name());
        }
        let effect = self.snapshot.set_node(change.object());
        self.apply_hint(effect);
    }

    fn apply_hint(&mut self, effect: QueueingHint) {
        if effect == QueueingHint::Queue {
            self.queue.move_to_active_or_backoff(self.context.clock.now());
        }
    }

    /// Runs scheduling cycles for active pods, up to the limits. Returns whether there may be more.
    fn schedule_active(&mut self) -> bool {
        for _ in 0..MAX_CYCLES_PER_TURN {
            if self.in_flight.len() >= MAX_IN_FLIGHT {
                return false;
            }
            let Some(pod) = self.queue.pop() else {
                return false;
            };
            match find_node(&self.config.profile, &pod, &self.snapshot, &mut self.start) {
                Ok(index) => self.assume_and_bind(pod, index),
                Err(fit_error) => self.handle_unschedulable(&pod, fit_error),
            }
        }
        true
    }

    /// Assumes the pod on the node, and binds it in the background.
    fn assume_and_bind(&mut self, mut pod: PodInfo, index: usize) {
        pod.node = self.snapshot.nodes()[index].name.clone();
        self.snapshot.set_pod(pod.clone());
        let client = self.context.client.clone();
        self.in_flight.spawn(async move { Some(bind(client, pod).await) });
    }

    /// Queues the pod as unschedulable, and reports why in an event and in its status.
    fn handle_unschedulable(&mut self, pod: &PodInfo, fit_error: FitError) {
        self.queue.add_unschedulable(&pod.key, self.context.clock.now());
        let Some(object) = self.pods.find(&pod.key).filter(|object| object.uid() == pod.uid) else {
            return;
        };
        let object: TypedObject<Pod> = TypedObject::new(object);
        self.context
            .events
            .warning(&object, "FailedScheduling", fit_error.message.clone());
        self.in_flight
            .spawn(report_unschedulable(self.context.clone(), object, fit_error));
    }

    fn finished(&mut self, finished: BindOutcome) {
        let status = match &finished.result {
            BindResult::Bound => {
                self.queue.remove(&finished.key);
                return self.record_scheduled(&finished);
            }
            BindResult::Superseded => None,
            BindResult::Failed(status) => Some(status),
        };
        if let Some(status) = status {
            tracing::warn!(pod = %finished.key, node = %finished.node, %status, "binding failed");
        }
        self.forget(&finished);
        // If the pod is bound or deleted, its next change removes it from the queue.
        self.queue.retry(&finished.key, self.context.clock.now());
    }

    /// Removes the assumed pod from its node.
    fn forget(&mut self, finished: &BindOutcome) {
        if self.snapshot.contains(&finished.key, &finished.uid) {
            let effect = self.snapshot.remove_pod(&finished.key);
            self.apply_hint(effect);
        }
    }

    fn record_scheduled(&self, finished: &BindOutcome) {
        let Some(object) = self
            .pods
            .find(&finished.key)
            .filter(|one| one.uid() == finished.uid)
        else {
            return;
        };
        let message = format!("Successfully assigned {} to {}", finished.key, finished.node);
        let object: TypedObject<Pod> = TypedObject::new(object);
        self.context.events.normal(&object, "Scheduled", message);
    }
}

/// Writes the PodScheduled condition with the reasons, if the pod still has no node.
async fn report_unschedulable(
    context: Context,
    object: TypedObject<Pod>,
    fit_error: FitError,
) -> Option<BindOutcome> {
    let pods = context.client.namespaced::<Pod>(object.key().namespace());
    let reported = retry_on_conflict(STATUS_UPDATE_ATTEMPTS, || async {
        let name = object.key().name();
        let fresh = pods.get(name).await?;
        let mut pod: Value = fresh.decode().map_err(Status::internal)?;
        let is_bound = pod["spec"]["nodeName"].is_string();
        let is_same = fresh.uid() == object.uid() && !is_bound;
        if is_same && report::set_unschedulable(context.clock.now(), &mut pod, &fit_error.message) {
            let json = pod.to_string();
            pods.dynamic().update_subresource(name, "status", json).await?;
        }
        Ok(())
    });
    if let Err(status) = reported.await {
        tracing::debug!(pod = %object.key(), %status, "cannot update the PodScheduled condition");
    }
    None
}

/// Whether the headers alone show that nothing relevant to scheduling changed: same spec, same node, same phase. Most
/// changes are like this, and their objects need not be decoded.
fn is_irrelevant(old: &Stored, new: &Stored) -> bool {
    let same_field = |label: &str| new.field(label).is_some() && new.field(label) == old.field(label);
    let (before, after) = (old.header(), new.header());
    before.uid == after.uid
        && after.generation > 0
        && before.generation == after.generation
        && before.deleting == after.deleting
        && same_field("spec.nodeName")
        && same_field("status.phase")
}

fn subscribe(cache: &Arc<Cache>) -> Subscription {
    let subscribed = cache.subscribe(None);
    subscribed.expect("a subscription from the current state cannot be too old")
}

async fn sleep(clock: &Arc<dyn Clock>, due: Option<Duration>) {
    match due {
        Some(Duration::ZERO) => {}
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: DEFAULT_NAME.to_owned(),
            profile: crate::plugins::default_profile(),
        }
    }
}
