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
use crate::cycle::{Plan, PlanError, Rotation, plan};
use crate::framework::{BindRequest, Handle, Profile};
use crate::pod_info::{PodInfo, SpecInterner};
use crate::queue::Queue;
use crate::report;
use crate::state::ClusterState;

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
}

/// A running scheduler.
struct Scheduler {
    config: Config,
    context: Context,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    profile: Arc<Profile>,
    cluster: ClusterState,
    interner: SpecInterner,
    queue: Queue,
    rotation: Rotation,
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
    let profile = crate::plugins::default_profile(&Handle::new(context.caches.clone()));
    let scheduler = Scheduler {
        config,
        context: Context { events, ..context },
        pods,
        nodes,
        profile: Arc::new(profile),
        cluster: ClusterState::default(),
        interner: SpecInterner::default(),
        queue: Queue::default(),
        rotation: Rotation::default(),
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
        (self.cluster, self.queue) = Default::default();
        for node in nodes.initial.take().iter().flat_map(|all| all.iter()) {
            self.cluster.set_node(node);
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
        if self.cluster.remove_pod(key).is_some() {
            self.move_unschedulable();
        }
    }

    fn update_pod(&mut self, object: &Stored) {
        let Some(pod) = PodInfo::read(object, &mut self.interner).map(Arc::new) else {
            return;
        };
        if pod.needs_scheduling() && pod.spec.scheduler == self.config.name {
            // A pod that is assumed on a node is being bound; this version of it is older than that.
            if pod.scheduling_gates.is_empty() && !self.cluster.contains(&pod.key, &pod.uid) {
                self.queue.update(pod);
            }
            return;
        }
        self.queue.remove(&pod.key);
        if self.cluster.set_pod(pod).is_some() {
            self.move_unschedulable();
        }
    }

    fn node_changed(&mut self, change: &Change) {
        if change.is_deletion() {
            self.cluster.remove_node(change.key().name());
        } else if self.cluster.set_node(change.object()).is_some() {
            self.move_unschedulable();
        }
    }

    fn move_unschedulable(&mut self) {
        self.queue.move_to_active_or_backoff(self.context.clock.now());
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
            let planned = plan(&self.profile, &pod, &self.cluster, self.rotation);
            self.rotation.turn += 1;
            let evaluated = match &planned {
                Ok(plan) => plan.statistics.evaluated,
                Err(PlanError::Unfit(unfit)) => unfit.evaluated,
                Err(_) => 0,
            };
            self.rotation.start += evaluated;
            match planned {
                Ok(plan) => self.assume_and_bind(&pod, plan),
                Err(error) => self.handle_unschedulable(&pod, &error),
            }
        }
        true
    }

    /// Assumes the pod on the node, and binds it in the background.
    fn assume_and_bind(&mut self, pod: &PodInfo, mut plan: Plan) {
        plan.cycle.end_planning();
        let pod = Arc::new(pod.assigned_to(self.cluster.node(plan.node).name()));
        self.cluster.assume(pod.clone());
        let request = BindRequest {
            cycle: Arc::new(plan.cycle),
            node: pod.node.clone(),
            pod,
            client: self.context.client.clone(),
            clock: self.context.clock.clone(),
        };
        let profile = self.profile.clone();
        self.in_flight
            .spawn(async move { Some(bind(profile, request).await) });
    }

    /// Queues the pod as unschedulable, and reports why in an event and in its status.
    fn handle_unschedulable(&mut self, pod: &PodInfo, error: &PlanError) {
        let message = match error {
            PlanError::NoNodes => "no nodes available to schedule pods".to_owned(),
            PlanError::Unfit(unfit) => unfit.diagnosis.to_string(),
            PlanError::Failed(rejection) => rejection.to_string(),
        };
        self.queue.add_unschedulable(&pod.key, self.context.clock.now());
        let Some(object) = self.pods.find(&pod.key).filter(|object| object.uid() == pod.uid) else {
            return;
        };
        let object: TypedObject<Pod> = TypedObject::new(object);
        self.context
            .events
            .warning(&object, "FailedScheduling", message.clone());
        self.in_flight
            .spawn(report_unschedulable(self.context.clone(), object, message));
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
        if self.cluster.is_assumed(&finished.key, &finished.uid) {
            self.cluster.remove_pod(&finished.key);
            self.move_unschedulable();
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
    message: String,
) -> Option<BindOutcome> {
    let pods = context.client.namespaced::<Pod>(object.key().namespace());
    let reported = retry_on_conflict(STATUS_UPDATE_ATTEMPTS, || async {
        let name = object.key().name();
        let fresh = pods.get(name).await?;
        let mut pod: Value = fresh.decode().map_err(Status::internal)?;
        let is_bound = pod["spec"]["nodeName"].is_string();
        let is_same = fresh.uid() == object.uid() && !is_bound;
        if is_same && report::set_unschedulable(context.clock.now(), &mut pod, &message) {
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
        }
    }
}
