//! The scheduling loop: applies changes of the caches to the shared state and the queue, hands pods to the workers, and
//! carries out what they decided.
//!
//! One task owns the queue. Workers plan and commit on the shared state (see [`planner`]), bindings and status updates run
//! as tasks beside it; their outcomes come back to the loop as events.

mod cache_changes;
mod cluster_events;
mod config;
mod extended_cycle;
pub mod planner;
mod post_filter;
mod status_writes;
mod task_outcomes;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use setpoint_api::{Change, Clock, Key, ResourceVersion, off_worker};
use setpoint_runtime::manager::RunnableFuture;
use setpoint_runtime::{Cache, Client, Context, Error, Object, Snapshot, Subscription};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use cluster_events::ObjectChanges;
pub use cluster_events::resources_to_watch;
pub use config::{Config, DEFAULT_NAME};
use extended_cycle::ObjectCaches;
use planner::{Attempt, Planner};
use status_writes::StatusWrites;

use crate::bind::BindOutcome;
use crate::explain::Decisions;
use crate::framework::Handle;
use crate::metrics::Metrics;
use crate::pod_info::{PodInfo, SpecInterner};
use crate::queue::{Queue, QueuedPod};

/// The field manager of what the scheduler writes, as Kubernetes derives it from the user agent of kube-scheduler.
const FIELD_MANAGER: &str = "kube-scheduler";

/// Limit of concurrent bindings and status updates, without those of pods that wait for a permission; at the limit the loop
/// waits for one to finish.
const MAX_IN_FLIGHT: usize = 512;
/// Limit of pods that a worker plans before the loop applies changes again.
const MAX_BATCH: usize = 64;
/// From this many evaluations of a node on, a batch is planned off the threads that serve requests. Pods that use devices are
/// always planned there: a search for devices may take seconds.
const OFF_WORKER_EVALUATIONS: usize = 4000;

/// A running scheduler.
struct Scheduler {
    context: Context,
    planner: Arc<Planner>,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    interner: SpecInterner,
    queue: Queue,
    /// The workers that plan nothing now.
    idle_workers: Vec<usize>,
    in_flight: JoinSet<TaskOutcome>,
    /// Posts Bindings under a field manager that no other scheduler has.
    binding_client: Client,
    /// The pods whose binding conflicted with that of another scheduler, until that one is seen.
    conflicted: Vec<Key>,
    decisions: Arc<Decisions>,
    status_writes: StatusWrites,
}

/// The outcome of a task beside the loop.
enum TaskOutcome {
    /// A worker finished a batch that it began at that time.
    Planned {
        worker: usize,
        began: Timestamp,
        attempts: Vec<(QueuedPod, Attempt)>,
    },
    /// A binding cycle ended.
    Bound(Box<BindOutcome>),
    /// The status of the pod with this uid was written.
    StatusWritten(CompactString),
    /// The action of a plugin ended.
    ActionEnded,
    /// The action of a plugin for the pod with this uid failed: no event may follow that helps the pod.
    ActionFailed(Key, CompactString),
}

/// An event that wakes the loop.
enum LoopEvent {
    Stopped,
    /// Changes of pods, and the version up to which all have been delivered.
    Pods(Vec<Change>, ResourceVersion),
    Nodes(Vec<Change>),
    /// Changes of the other resources that plugins registered.
    Objects(ObjectChanges),
    TaskFinished(TaskOutcome),
    /// The backoff or wait of a queued pod is over.
    TimerElapsed,
    /// A subscription fell behind and lost changes: everything is listed again.
    Lagged,
}

/// What the loop subscribes to.
struct Subscriptions {
    pods: Subscription,
    nodes: Subscription,
    objects: mpsc::Receiver<ObjectChanges>,
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
    let metrics = Arc::new(Metrics::new(context.clock.clone()));
    let handle = Handle::new(context.caches.clone(), context.clock.clone());
    let profiles = config.build_profiles(&handle, &metrics, &context.clock)?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = cluster_events::synced(&context) => {}
    }
    let profiles = Arc::new(profiles);
    let planner = Planner::new(profiles.clone(), config.workers()).with_metrics(metrics.clone());
    let planner = Arc::new(planner);
    let events = metrics.events.clone();
    let source = planner.clone();
    context.metrics.include(move || source.metrics_text());
    let mut watches = JoinSet::new();
    let objects = cluster_events::watch(&context, &profiles, &mut watches);
    let scheduler = Scheduler {
        queue: Queue::new(profiles, config.backoff).with_metrics(events),
        idle_workers: (0..planner.workers()).collect(),
        binding_client: context.client.with_field_manager(&unique_field_manager()),
        context,
        planner,
        pods,
        nodes,
        interner: SpecInterner::default(),
        in_flight: JoinSet::new(),
        conflicted: Vec::new(),
        decisions: config.explainer.decisions().clone(),
        status_writes: StatusWrites::default(),
    };
    config.explainer.attach(&scheduler.planner);
    scheduler.run(stop, objects, config).await;
    watches.shutdown().await;
    Ok(())
}

impl Scheduler {
    async fn run(mut self, stop: CancellationToken, objects: mpsc::Receiver<ObjectChanges>, config: Config) {
        let (pods, nodes) = self.read_all(&config);
        let mut subscriptions = Subscriptions { pods, nodes, objects };
        loop {
            self.finish_ended_tasks();
            self.start_workers();
            self.update_metrics();
            match self.wait(&mut subscriptions, &stop).await {
                LoopEvent::Stopped => break,
                LoopEvent::Pods(changes, version) => self.pods_changed(&changes, version),
                LoopEvent::Nodes(changes) => self.nodes_changed(&changes),
                LoopEvent::Objects(changes) => self.objects_changed(&changes),
                LoopEvent::TaskFinished(outcome) => self.task_finished(outcome),
                LoopEvent::TimerElapsed => self.queue.flush_due(self.now()),
                LoopEvent::Lagged => {
                    self.finish_plans().await;
                    (subscriptions.pods, subscriptions.nodes) = self.read_all(&config);
                }
            }
        }
        self.in_flight.shutdown().await;
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// Handles the tasks that have ended, all at once.
    fn finish_ended_tasks(&mut self) {
        for _ in 0..self.in_flight.len() {
            match self.in_flight.try_join_next() {
                Some(ended) => self.task_finished(outcome_of(ended)),
                None => return,
            }
        }
    }

    /// Waits until no worker plans: none may see a state that is not complete yet.
    async fn finish_plans(&mut self) {
        while self.idle_workers.len() < self.planner.workers() {
            match self.in_flight.join_next().await {
                Some(ended) => self.task_finished(outcome_of(ended)),
                None => return,
            }
        }
    }

    /// Lists everything again, and subscribes to the changes from there.
    fn read_all(&mut self, config: &Config) -> (Subscription, Subscription) {
        let (mut pods, mut nodes) = (subscribe(&self.pods), subscribe(&self.nodes));
        let all_pods = pods
            .initial
            .take()
            .expect("a subscription from now has a snapshot");
        {
            let mut cluster = self.planner.cluster.write();
            *cluster = cluster.replacement(|assumed| is_unbound(&all_pods, assumed));
        }
        let events = self.planner.metrics.events.clone();
        self.queue = Queue::new(self.planner.profiles.clone(), config.backoff).with_metrics(events);
        cluster_events::read_namespaces(&self.context, &mut self.planner.cluster.write());
        for node in nodes.initial.take().iter().flat_map(|all| all.iter()) {
            self.planner.cluster.write().set_node(node);
        }
        for pod in all_pods.iter() {
            self.update_pod(None, pod);
        }
        self.planner.cluster.write().set_observed(all_pods.version);
        (pods, nodes)
    }

    /// Waits for the next event. Each source has its turn, however many events the others have.
    async fn wait(&mut self, subscriptions: &mut Subscriptions, stop: &CancellationToken) -> LoopEvent {
        let now = self.now();
        let due = self.queue.next_due();
        let due = due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default());
        let clock = &self.context.clock;
        tokio::select! {
            () = stop.cancelled() => LoopEvent::Stopped,
            Some(ended) = self.in_flight.join_next() => LoopEvent::TaskFinished(outcome_of(ended)),
            batch = subscriptions.nodes.next() => {
                batch.map_or(LoopEvent::Lagged, |batch| LoopEvent::Nodes(batch.changes().to_vec()))
            }
            batch = subscriptions.pods.next() => {
                batch.map_or(LoopEvent::Lagged, |batch| LoopEvent::Pods(batch.changes().to_vec(), batch.version))
            }
            Some(changes) = subscriptions.objects.recv() => LoopEvent::Objects(changes),
            () = sleep(clock, due) => LoopEvent::TimerElapsed,
        }
    }

    /// Gives each idle worker its share of the pods that can be tried now.
    fn start_workers(&mut self) {
        let limit = MAX_IN_FLIGHT + self.planner.waiting_pods();
        while self.in_flight.len() < limit && self.queue.ready() > 0 {
            let share = self.queue.ready().div_ceil(self.idle_workers.len().max(1));
            let Some(worker) = self.idle_workers.pop() else {
                return;
            };
            let began = self.now();
            let planner = self.planner.clone();
            // Extenders may take seconds for a pod, while more important pods arrive.
            let most = if planner.has_extenders() { 1 } else { MAX_BATCH };
            let batch: Vec<QueuedPod> = (0..share.min(most))
                .map_while(|_| self.queue.pop(began))
                .collect();
            if planner.has_extenders() {
                let objects = ObjectCaches {
                    pods: self.pods.clone(),
                    nodes: self.nodes.clone(),
                };
                self.in_flight.spawn(async move {
                    let attempts = planner.attempt_all_extended(batch, &objects).await;
                    TaskOutcome::Planned {
                        worker,
                        began,
                        attempts,
                    }
                });
                continue;
            }
            self.in_flight.spawn(async move {
                let evaluations = batch.len() * planner.cluster.read().len();
                let has_claims = batch.iter().any(|queued| queued.pod.may_use_devices());
                let attempts = match evaluations < OFF_WORKER_EVALUATIONS && !has_claims {
                    true => planner.attempt_all(worker, batch),
                    false => off_worker(|| planner.attempt_all(worker, batch)),
                };
                TaskOutcome::Planned {
                    worker,
                    began,
                    attempts,
                }
            });
        }
    }

    fn update_metrics(&self) {
        let mut metrics = self.planner.metrics.queue.lock();
        metrics.counts = self.queue.counts();
        metrics.in_flight_events.clone_from(self.queue.in_flight_events());
    }
}

/// The outcome of a task. A panic goes on in the loop, so that the process stops: the worker and its pods would be lost.
fn outcome_of(ended: Result<TaskOutcome, JoinError>) -> TaskOutcome {
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// A field manager that no other scheduler has, in this process or in another.
fn unique_field_manager() -> String {
    format!(
        "{FIELD_MANAGER}-{:016x}",
        RandomState::new().hash_one(FIELD_MANAGER)
    )
}

/// Whether the pod exists without a node: its binding is under way, or was committed after the list.
fn is_unbound(pods: &Snapshot, assumed: &PodInfo) -> bool {
    let pod = pods.find(&assumed.key).filter(|pod| pod.uid() == assumed.uid);
    pod.is_some_and(|pod| pod.field("spec.nodeName").is_none_or(str::is_empty))
}

fn subscribe(cache: &Arc<Cache>) -> Subscription {
    let subscribed = cache.subscribe(None);
    subscribed.expect("a subscription from the current state cannot be too old")
}

async fn sleep(clock: &Arc<dyn Clock>, due: Option<Duration>) {
    match due {
        Some(due) => clock.sleep(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
