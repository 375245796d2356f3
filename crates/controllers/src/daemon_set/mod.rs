//! Keeps one pod of each DaemonSet on every eligible node.
//!
//! A reconcile syncs the ControllerRevisions, looks at every node and its pods, decides in [`mod@plan`] (pure), creates
//! and deletes pods, and writes the status. The scheduler binds the pods, each to the one node that its affinity names.
//!
//! Start reading at [`DaemonSets::reconcile`], then [`mod@plan`].

mod plan;
mod pod;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{self, Node};
use parking_lot::Mutex;
use setpoint_api::selector::LabelSelector;
use setpoint_api::{Change, Clock, Key};
use setpoint_runtime::label_selector;
use setpoint_runtime::{
    Client, Context, Controller, Error, Lister, Next, Object, Reconcile, Recorder, TypedObject,
};
use setpoint_values::int_or_percent::RoundingMode;
use tokio_util::sync::CancellationToken;

use crate::daemon_set::plan::{Counts, DaemonPod, NodePods, Plan, UpdateStrategy, by_node, plan};
use crate::int_or_percent;
use crate::node_fit::{fit, target_node};
use crate::pod_control::PodControl;
use crate::pods::{Phase, Pod};
use crate::revisions::{self, HASH_LABEL, History, RevisionOwner};
use crate::{Config, api_time, controller_ref};

/// The name as kube-controller-manager has it.
pub const NAME: &str = "daemonset-controller";

/// How long the first failed pod of a node is kept; each further one doubles it.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(900);

/// Runs the controller until stopped.
pub async fn run(context: Context, config: Config, stop: CancellationToken) -> Result<(), Error> {
    let reconciler = DaemonSets::new(&context)?;
    let (by_pod, by_node) = (reconciler.sets.clone(), reconciler.sets.clone());
    Controller::new(NAME, reconciler)
        .reconciles::<DaemonSet>()
        .owns::<DaemonSet, ControllerRevision>()
        .watches(v1::Pod::resource().group_resource(), move |change| {
            controller_ref::owners_to_enqueue(&by_pod, change, |set| selector_of(set).ok())
        })
        .watches(Node::resource().group_resource(), move |change| {
            sets_to_enqueue(&by_node, change)
        })
        .workers(config.workers(NAME))
        .run(&context, stop)
        .await
}

/// The reconciler.
#[derive(Debug)]
pub(crate) struct DaemonSets {
    sets: Lister<DaemonSet>,
    pods: Lister<v1::Pod>,
    nodes: Lister<Node>,
    revisions: Lister<ControllerRevision>,
    clock: Arc<dyn Clock>,
    events: Recorder,
    pod_control: PodControl,
    /// For each set (by uid) and node, when its failed pod was last replaced, and the backoff of the next.
    backoffs: Mutex<HashMap<(String, String), (Timestamp, Duration)>>,
}

fn selector_of(set: &TypedObject<DaemonSet>) -> Result<LabelSelector, Error> {
    let set = set.shared()?;
    label_selector(&set.spec.selector).map_err(Error::terminal)
}

/// All sets, when a node is added, deleted, or changed in what decides whether pods fit.
fn sets_to_enqueue(sets: &Lister<DaemonSet>, change: &Change) -> Vec<Key> {
    if let Change::Modified { old, new } = change {
        let taints = |node: &setpoint_api::Stored| {
            node.view::<crate::node_fit::NodeView>()
                .map(|view| view.taints.clone())
                .ok()
        };
        if old.header().labels == new.header().labels && taints(old) == taints(new) {
            return Vec::new();
        }
    }
    sets.list().iter().map(|set| set.key().clone()).collect()
}

impl Reconcile for DaemonSets {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(object) = self.sets.find(key) else {
            return Ok(Next::Done);
        };
        let set = object.to_owned()?;
        let selector = selector_of(&object)?;
        if set.spec.selector.match_labels.is_none() && set.spec.selector.match_expressions.is_none() {
            let message = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.events.warning(&object, "SelectingAll", message);
            return Ok(Next::Done);
        }
        if object.header().deleting {
            return Ok(Next::Done);
        }
        let history = self.history(client, &object, &set, &selector).await?;
        let hash = revisions::hash_of(&history.update, HASH_LABEL).to_owned();
        let pods = self.pods_of(client, &object, &selector, &hash).await?;
        let spec = pod::spec(&set);
        let nodes = self.nodes.list();
        let by_node = by_node(&pods);
        let all_node_pods: Vec<NodePods<'_>> = nodes
            .iter()
            .map(|node| NodePods {
                node: node.key().name(),
                fit: fit(&spec, node),
                pods: by_node.get(node.key().name()).cloned().unwrap_or_default(),
            })
            .collect();
        let now = self.clock.now();
        let plan = plan(now, strategy(&set, &all_node_pods), &all_node_pods, |node| {
            self.backoff(now, object.uid(), node)
        });
        let new_pod = |node: &&str| pod::new_pod(&object, &set, node, &hash);
        let new_pods: Vec<v1::Pod> = plan.create.iter().map(new_pod).collect();
        let done = self.carry_out(client, &object, &plan, &new_pods).await;
        report(client, &object, &set, plan.counts).await?;
        trim(client, &object, &set, &history, &pods).await?;
        done?;
        Ok(plan.recheck.map_or(Next::Done, Next::After))
    }
}

impl DaemonSets {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        let (pods, revisions) = (context.lister()?, context.lister()?);
        controller_ref::add_orphan_index(&pods);
        controller_ref::add_orphan_index(&revisions);
        let events = context.events.for_component(NAME);
        Ok(Self {
            sets: context.lister()?,
            pods,
            nodes: context.lister()?,
            revisions,
            clock: context.clock.clone(),
            pod_control: PodControl::new(events.clone()),
            events,
            backoffs: Mutex::default(),
        })
    }

    /// The ControllerRevisions of the set's template.
    async fn history(
        &self,
        client: &Client,
        object: &TypedObject<DaemonSet>,
        set: &DaemonSet,
        selector: &LabelSelector,
    ) -> Result<Box<History>, Error> {
        let revision_owner = RevisionOwner {
            owner: object,
            metadata: &set.metadata,
            selector,
            template: &set.spec.template,
            collisions: set.status.as_ref().and_then(|status| status.collision_count),
            label: HASH_LABEL,
        };
        revisions::sync(client, &self.revisions, &revision_owner).await
    }

    /// The pods of the set, each with the node it is bound to or targets.
    async fn pods_of(
        &self,
        client: &Client,
        object: &TypedObject<DaemonSet>,
        selector: &LabelSelector,
        hash: &str,
    ) -> Result<Vec<(String, DaemonPod)>, Error> {
        let claimed = controller_ref::claim(client, &self.pods, object, selector).await?;
        let with_node = claimed.into_iter().map(|pod| {
            let is_new = pod.label(HASH_LABEL) == Some(hash);
            let pod = Pod::read(pod);
            let node = match pod.view().node.as_str() {
                "" => target_node(pod.object()).unwrap_or_default(),
                node => node.to_owned(),
            };
            (node, DaemonPod { pod, is_new })
        });
        Ok(with_node.collect())
    }

    /// How long a failed pod of the node is still kept; `None` if it may be deleted now.
    fn backoff(&self, now: Timestamp, uid: &str, node: &str) -> Option<Duration> {
        let backoffs = self.backoffs.lock();
        let (last, backoff) = backoffs.get(&(uid.to_owned(), node.to_owned()))?;
        let due = last.checked_add(*backoff).unwrap_or(Timestamp::MAX);
        api_time::duration_until(now, due)
    }

    /// Doubles the backoff of the node, whose failed pod is replaced now.
    fn increase_backoff(&self, uid: &str, node: &str) {
        let now = self.clock.now();
        let mut backoffs = self.backoffs.lock();
        let backoff = backoffs
            .entry((uid.to_owned(), node.to_owned()))
            .or_insert((now, INITIAL_BACKOFF));
        // A pod that ran for long enough resets the backoff.
        let is_long_ago = now.duration_since(backoff.0).unsigned_abs() > backoff.1 * 4;
        let next = if is_long_ago {
            INITIAL_BACKOFF
        } else {
            (backoff.1 * 2).min(MAX_BACKOFF)
        };
        *backoff = (now, next);
    }

    async fn carry_out(
        &self,
        client: &Client,
        object: &TypedObject<DaemonSet>,
        plan: &Plan<'_>,
        new_pods: &[v1::Pod],
    ) -> Result<(), Error> {
        for (pod, node) in &plan.ended {
            let key = pod.object().key();
            if pod.view().phase == Phase::Failed {
                self.increase_backoff(object.uid(), node);
                let message = format!("Found failed daemon pod {key} on node {node}, will try to kill it");
                self.events.warning(object, "FailedDaemonPod", message);
            } else {
                let message =
                    format!("Found succeeded daemon pod {key} on node {node}, will try to delete it");
                self.events.normal(object, "SucceededDaemonPod", message);
            }
        }
        let created = self.create(client, object, new_pods).await;
        let deleted = self.delete(client, object, plan).await;
        created.and(deleted)
    }

    async fn create(
        &self,
        client: &Client,
        object: &TypedObject<DaemonSet>,
        new_pods: &[v1::Pod],
    ) -> Result<(), Error> {
        let outcome = self.pod_control.create(client, object, new_pods).await?;
        Ok(outcome.into_result().map(drop)?)
    }

    async fn delete(
        &self,
        client: &Client,
        object: &TypedObject<DaemonSet>,
        plan: &Plan<'_>,
    ) -> Result<(), Error> {
        let victims = plan.delete.iter().copied();
        Ok(self.pod_control.delete(client, object, victims).await?)
    }
}

/// Writes the status if it changed.
async fn report(
    client: &Client,
    object: &TypedObject<DaemonSet>,
    set: &DaemonSet,
    counts: Counts,
) -> Result<(), Error> {
    let status = status(set, counts);
    if set.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let mut updated = set.clone();
    updated.status = Some(status);
    let handle = client.namespaced::<DaemonSet>(object.key().namespace());
    match handle.update_status(&updated).await {
        Err(status) if status.is_not_found() => Ok(()),
        written => Ok(written.map(drop)?),
    }
}

async fn trim(
    client: &Client,
    object: &TypedObject<DaemonSet>,
    set: &DaemonSet,
    history: &History,
    pods: &[(String, DaemonPod)],
) -> Result<(), Error> {
    let in_use: BTreeSet<&str> = pods
        .iter()
        .filter_map(|(_, own)| own.pod.object().label(HASH_LABEL))
        .collect();
    let is_live = |one: &&ControllerRevision| in_use.contains(revisions::hash_of(one, HASH_LABEL));
    let mut live: BTreeSet<String> = history
        .all
        .iter()
        .filter(is_live)
        .map(|one| revisions::name(one).to_owned())
        .collect();
    live.insert(revisions::name(&history.update).to_owned());
    let handle = client.namespaced(object.key().namespace());
    revisions::trim(&handle, history, &live, set.spec.revision_history_limit).await
}

/// The set's update strategy in numbers of nodes.
fn strategy(set: &DaemonSet, all_node_pods: &[NodePods<'_>]) -> UpdateStrategy {
    let desired = all_node_pods
        .iter()
        .filter(|node_pods| node_pods.fit == crate::node_fit::Fit::Run)
        .count();
    let desired = i32::try_from(desired).unwrap_or(i32::MAX);
    let strategy = set.spec.update_strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let count =
        |value| usize::try_from(int_or_percent::scaled_value(value, desired, RoundingMode::Up)).unwrap_or(0);
    let surge = count(rolling.and_then(|rolling| rolling.max_surge.as_ref()));
    let unavailable = count(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()));
    UpdateStrategy {
        on_delete: strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete"),
        surge,
        unavailable: if surge == 0 {
            unavailable.max(1)
        } else {
            unavailable
        },
        min_ready_seconds: i64::from(set.spec.min_ready_seconds.unwrap_or(0)),
    }
}

fn status(set: &DaemonSet, counts: Counts) -> DaemonSetStatus {
    let some = |count: i32| (count != 0).then_some(count);
    let old = set.status.clone().unwrap_or_default();
    DaemonSetStatus {
        desired_number_scheduled: counts.desired,
        current_number_scheduled: counts.current,
        number_misscheduled: counts.misscheduled,
        number_ready: counts.ready,
        number_available: some(counts.available),
        number_unavailable: some(counts.desired - counts.available),
        updated_number_scheduled: some(counts.updated),
        observed_generation: set.metadata.generation,
        collision_count: old.collision_count,
        conditions: old.conditions,
    }
}

#[cfg(test)]
mod tests;
