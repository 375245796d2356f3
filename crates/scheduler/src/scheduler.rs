//! The loop: takes in what changes, decides for one pod after the other, binds in the background.
//!
//! One task owns the picture of the cluster and the queue, so that a decision never waits for a lock. Bindings and
//! reports run beside it; what they come to is one more thing that happens to the loop.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;
use setpoint_api::{Change, Clock, Key, Status, Stored};
use setpoint_runtime::manager::Running;
use setpoint_runtime::{Cache, Context, Error, Object, Subscription, Typed, retry_on_conflict};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bind::{Bound, Finished, bind};
use crate::cycle::{Unfit, choose};
use crate::framework::Profile;
use crate::pod_info::PodInfo;
use crate::queue::Queue;
use crate::report;
use crate::snapshot::{Effect, Snapshot};

/// The name of the scheduler that pods ask for unless they name another.
pub const DEFAULT_NAME: &str = "default-scheduler";

/// So many bindings and reports may be under way; beyond that the loop waits for one to end.
const MAX_UNDER_WAY: usize = 512;
/// So many decisions are made before the loop looks at what has changed.
const DECISIONS_AT_A_TIME: usize = 64;

/// So often a report is tried while others change the pod.
const TRIES: usize = 5;

/// What a scheduler is told when it starts.
#[derive(Debug)]
pub struct Config {
    /// It places the pods that ask for it by this name.
    pub name: String,
    pub profile: Profile,
}

/// A scheduler at work.
struct Scheduler {
    config: Config,
    context: Context,
    pods: Arc<Cache>,
    nodes: Arc<Cache>,
    snapshot: Snapshot,
    queue: Queue,
    /// Where the next walk over the nodes starts.
    start: usize,
    under_way: JoinSet<Option<Finished>>,
}

/// What the loop was woken by.
enum Woken {
    Stopped,
    Pods(Vec<Change>),
    Nodes(Vec<Change>),
    Ended(Option<Finished>),
    /// A wait in the queue is over.
    Due,
    /// Changes were missed: everything must be read again.
    Lost,
}

/// Places pods until stopped.
pub fn run(context: Context, config: Config, stop: CancellationToken) -> Running {
    Box::pin(place_all(context, config, stop))
}

async fn place_all(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let pods = context.cache(&Pod::resource().group_resource())?;
    let nodes = context.cache(&Node::resource().group_resource())?;
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = async { tokio::join!(pods.synced(), nodes.synced()); } => {}
    }
    let events = context.events.of(&config.name);
    let scheduler = Scheduler {
        config,
        context: Context { events, ..context },
        pods,
        nodes,
        snapshot: Snapshot::default(),
        queue: Queue::default(),
        start: 0,
        under_way: JoinSet::new(),
    };
    scheduler.run(stop).await;
    Ok(())
}

impl Scheduler {
    async fn run(mut self, stop: CancellationToken) {
        let (mut pods, mut nodes) = self.read_all();
        loop {
            let busy = self.decide();
            let woken = self.wait(&mut pods, &mut nodes, &stop, busy).await;
            match woken {
                Woken::Stopped => break,
                Woken::Pods(changes) => changes.iter().for_each(|change| self.pod_changed(change)),
                Woken::Nodes(changes) => changes.iter().for_each(|change| self.node_changed(change)),
                Woken::Ended(finished) => finished.into_iter().for_each(|one| self.finished(one)),
                Woken::Due => self.queue.advance(self.context.clock.now()),
                Woken::Lost => (pods, nodes) = self.read_all(),
            }
        }
        self.under_way.shutdown().await;
    }

    /// Reads everything anew, and follows what changes from there.
    fn read_all(&mut self) -> (Subscription, Subscription) {
        let (mut pods, mut nodes) = (follow(&self.pods), follow(&self.nodes));
        (self.snapshot, self.queue) = Default::default();
        for node in nodes.initial.take().iter().flat_map(|all| all.iter()) {
            self.snapshot.set_node(node);
        }
        for pod in pods.initial.take().iter().flat_map(|all| all.iter()) {
            self.pod_is(pod);
        }
        (pods, nodes)
    }

    /// Waits for the next thing to happen; while there is more to decide, only takes what has happened already.
    async fn wait(
        &mut self,
        pods: &mut Subscription,
        nodes: &mut Subscription,
        stop: &CancellationToken,
        busy: bool,
    ) -> Woken {
        let now = self.context.clock.now();
        let due = match (busy, self.queue.next_due()) {
            (true, _) => Some(Duration::ZERO),
            (false, due) => due.map(|due| Duration::try_from(due.duration_since(now)).unwrap_or_default()),
        };
        let clock = &self.context.clock;
        tokio::select! {
            biased;
            () = stop.cancelled() => Woken::Stopped,
            Some(ended) = self.under_way.join_next() => Woken::Ended(ended.ok().flatten()),
            batch = nodes.next() => batch.map_or(Woken::Lost, |batch| Woken::Nodes(batch.changes().to_vec())),
            batch = pods.next() => batch.map_or(Woken::Lost, |batch| Woken::Pods(batch.changes().to_vec())),
            () = sleep(clock, due) => Woken::Due,
        }
    }

    fn pod_changed(&mut self, change: &Change) {
        match change {
            Change::Deleted { last, .. } => self.pod_gone(last.key()),
            Change::Modified { old, new } if is_alike(old, new) => {}
            Change::Added(new) | Change::Modified { new, .. } => self.pod_is(new),
        }
    }

    fn pod_gone(&mut self, key: &Key) {
        self.queue.remove(key);
        let effect = self.snapshot.remove_pod(key);
        self.heed(effect);
    }

    fn pod_is(&mut self, object: &Stored) {
        let Some(pod) = PodInfo::read(object) else {
            return;
        };
        if pod.is_waiting_for(&self.config.name) {
            // A pod that is assumed on a node is on its way there; what is seen here is its past.
            if !self.snapshot.holds(&pod.key, &pod.uid) {
                self.queue.set(pod);
            }
            return;
        }
        self.queue.remove(&pod.key);
        let effect = self.snapshot.set_pod(pod);
        self.heed(effect);
    }

    fn node_changed(&mut self, change: &Change) {
        if change.is_deletion() {
            return self.snapshot.remove_node(change.key().name());
        }
        let effect = self.snapshot.set_node(change.object());
        self.heed(effect);
    }

    fn heed(&mut self, effect: Effect) {
        if effect == Effect::Room {
            self.queue.wake(self.context.clock.now());
        }
    }

    /// Decides for pods that are ready, up to the bounds. Says whether there may be more.
    fn decide(&mut self) -> bool {
        for _ in 0..DECISIONS_AT_A_TIME {
            if self.under_way.len() >= MAX_UNDER_WAY {
                return false;
            }
            let Some(pod) = self.queue.pop() else {
                return false;
            };
            match choose(&self.config.profile, &pod, &self.snapshot, &mut self.start) {
                Ok(place) => self.place(pod, place),
                Err(unfit) => self.park(&pod, unfit),
            }
        }
        true
    }

    /// Takes the pod as placed, and binds it in the background.
    fn place(&mut self, mut pod: PodInfo, place: usize) {
        pod.node = self.snapshot.nodes()[place].name.clone();
        self.snapshot.set_pod(pod.clone());
        let client = self.context.client.clone();
        self.under_way.spawn(async move { Some(bind(client, pod).await) });
    }

    /// Lets the pod wait until something changes, and says why.
    fn park(&mut self, pod: &PodInfo, unfit: Unfit) {
        self.queue.park(&pod.key, self.context.clock.now());
        let Some(object) = self.pods.find(&pod.key).filter(|object| object.uid() == pod.uid) else {
            return;
        };
        let object: Typed<Pod> = Typed::new(object);
        self.context
            .events
            .warning(&object, "FailedScheduling", unfit.message.clone());
        self.under_way.spawn(tell(self.context.clone(), object, unfit));
    }

    fn finished(&mut self, finished: Finished) {
        let status = match &finished.bound {
            Bound::Done => {
                self.queue.remove(&finished.key);
                return self.tell_bound(&finished);
            }
            Bound::Lost => None,
            Bound::Failed(status) => Some(status),
        };
        if let Some(status) = status {
            tracing::warn!(pod = %finished.key, node = %finished.node, %status, "binding failed");
        }
        self.forget(&finished);
        // Whether the pod is bound or gone shows in its next change, which takes it out of the queue.
        self.queue.retry(&finished.key, self.context.clock.now());
    }

    /// Takes back the assumption that the pod is on the node.
    fn forget(&mut self, finished: &Finished) {
        if self.snapshot.holds(&finished.key, &finished.uid) {
            let effect = self.snapshot.remove_pod(&finished.key);
            self.heed(effect);
        }
    }

    fn tell_bound(&self, finished: &Finished) {
        let Some(object) = self
            .pods
            .find(&finished.key)
            .filter(|one| one.uid() == finished.uid)
        else {
            return;
        };
        let message = format!("Successfully assigned {} to {}", finished.key, finished.node);
        let object: Typed<Pod> = Typed::new(object);
        self.context.events.normal(&object, "Scheduled", message);
    }
}

/// Writes into the pod's status why it waits, if it still does.
async fn tell(context: Context, object: Typed<Pod>, unfit: Unfit) -> Option<Finished> {
    let pods = context.client.namespaced::<Pod>(object.key().namespace());
    let told = retry_on_conflict(TRIES, || async {
        let name = object.key().name();
        let fresh = pods.get(name).await?;
        let mut pod: Value = fresh.decode().map_err(Status::internal)?;
        let is_bound = pod["spec"]["nodeName"].is_string();
        let is_same = fresh.uid() == object.uid() && !is_bound;
        if is_same && report::set_unschedulable(context.clock.now(), &mut pod, &unfit.message) {
            let json = pod.to_string();
            pods.dynamic().update_sub(name, "status", json).await?;
        }
        Ok(())
    });
    if let Err(status) = told.await {
        tracing::debug!(pod = %object.key(), %status, "could not tell why it waits");
    }
    None
}

/// Whether the headers alone show that nothing changed that decides where a pod goes: the same spec, on the same
/// node, in the same phase. Most changes are like this, and need not be read.
fn is_alike(old: &Stored, new: &Stored) -> bool {
    let same_field = |label: &str| new.field(label).is_some() && new.field(label) == old.field(label);
    let (before, after) = (old.header(), new.header());
    before.uid == after.uid
        && after.generation > 0
        && before.generation == after.generation
        && before.deleting == after.deleting
        && same_field("spec.nodeName")
        && same_field("status.phase")
}

fn follow(cache: &Arc<Cache>) -> Subscription {
    let subscribed = cache.subscribe(None);
    subscribed.expect("whoever starts with what is there asks for nothing old")
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
