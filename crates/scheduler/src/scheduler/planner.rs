//! [`Planner`]: parallel scheduling cycles over one shared state (the idea of Omega).
//!
//! A worker plans a pod under the shared lock, as if it were alone, and commits the plan under the exclusive lock. If the
//! node changed since it was seen, or anything else that the plan depends on, the pod is filtered again on that one node. A
//! plan that no longer holds is a conflict, and the pod is planned again. No lock is held across an `.await`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::{Mutex, RwLock};
use setpoint_api::ResourceVersion;

use crate::cycle::{
    Diagnosis, Plan, PlanError, Rotation, SignatureCache, Statistics, fits_node, plan_cached,
};
use crate::framework::{CycleState, PermitResult, PostFilterAction, Profile, Profiles, Rejection};
use crate::metrics::{ExtensionPoint, Metrics, StatusCode};
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::state::{ClusterState, NodeIndex};

/// Attempts to plan a pod whose plans conflict, before other pods go first.
pub(super) const MAX_CONFLICTS: usize = 8;

/// What the workers share.
#[derive(Debug)]
pub struct Planner {
    pub profiles: Arc<Profiles>,
    pub cluster: RwLock<ClusterState>,
    pub(crate) metrics: Arc<Metrics>,
    /// The cache of each worker.
    caches: Vec<Mutex<SignatureCache>>,
    start: AtomicUsize,
    turn: AtomicUsize,
}

/// The result of an attempt to schedule a pod.
#[derive(Debug)]
pub enum Attempt {
    /// The pod is assumed on a node and reserved there, ready to be bound.
    Assumed {
        pod: Arc<PodInfo>,
        cycle: CycleState,
        choice: Choice,
        /// The version of the pods by which the node was selected.
        observed: ResourceVersion,
    },
    /// No node fits.
    Unschedulable(Box<Failure>),
    /// A plugin failed, or the cluster has no nodes.
    Failed { message: String, is_rejected: bool },
    /// The pod has a node by now.
    Superseded,
    /// Too many conflicts: it is tried again at once.
    Conflicts,
}

/// How the node was chosen.
#[derive(Debug, Clone)]
pub struct Choice {
    pub statistics: Statistics,
    /// The weighted scores of the node by plugin.
    pub scores: Vec<(&'static str, i64)>,
    /// The state's sequence when the cycle began.
    pub cluster_sequence: u64,
}

/// Why no node fits, and what is done about it.
#[derive(Debug)]
pub struct Failure {
    pub diagnosis: Diagnosis,
    /// The state's sequence when the cycle began.
    pub cluster_sequence: u64,
    /// The node that the pod is nominated to; `Some("")` clears the nomination.
    pub nominated_node: Option<CompactString>,
    pub action: Option<PostFilterAction>,
}

/// A plan that was committed.
struct CommittedPlan {
    pod: Arc<PodInfo>,
    cycle: CycleState,
    observed: ResourceVersion,
}

/// Why a plan was not committed.
enum CommitError {
    /// The node no longer fits.
    Conflict,
    /// The pod has a node by now.
    Superseded,
    /// A Reserve or Permit plugin rejected the pod.
    Rejected(Rejection),
}

impl Planner {
    pub fn new(profiles: Arc<Profiles>, workers: usize) -> Self {
        Self {
            profiles,
            cluster: RwLock::default(),
            metrics: Arc::default(),
            caches: (0..workers.max(1)).map(|_| Mutex::default()).collect(),
            start: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// The same planner with these metrics.
    pub(crate) fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.caches.len()
    }

    /// The number of assumed pods that Permit plugins let wait, or that wait in PreBind. All profiles share them.
    pub(crate) fn waiting_pods(&self) -> usize {
        self.profiles
            .iter()
            .map(|profile| profile.waiting_pods.idle_bindings())
            .max()
            .unwrap_or(0)
    }

    /// Plans that did not hold at their commit: those whose pod still fitted the node, and those that were planned again.
    pub fn conflicts(&self) -> (u64, u64) {
        self.metrics.conflicts.counts()
    }

    /// All metrics in Prometheus' text format.
    pub(super) fn metrics_text(&self) -> String {
        let (nodes, pods, assumed_pods) = {
            let cluster = self.cluster.read();
            (cluster.len(), cluster.pod_count(), cluster.assumed_pods())
        };
        {
            let mut queue = self.metrics.queue.lock();
            (queue.nodes, queue.pods, queue.assumed_pods) = (nodes, pods, assumed_pods);
        }
        self.metrics.to_text()
    }

    /// Tries to schedule the pods, one after the other, with the cache of one worker.
    pub fn attempt_all(&self, worker: usize, batch: Vec<QueuedPod>) -> Vec<(QueuedPod, Attempt)> {
        let mut cache = self.caches[worker].lock();
        let attempts = batch.into_iter().map(|queued| {
            let attempt = self.attempt(&queued.pod, &mut cache);
            (queued, attempt)
        });
        attempts.collect()
    }

    /// Plans and commits until both succeed.
    pub fn attempt(&self, pod: &Arc<PodInfo>, cache: &mut SignatureCache) -> Attempt {
        let Some(profile) = self.profiles.find(&pod.spec.scheduler) else {
            return Attempt::Superseded;
        };
        for _ in 0..MAX_CONFLICTS {
            let plan = match self.plan(profile, pod, cache) {
                Ok(plan) => plan,
                Err(error) => return self.handle_plan_error(profile, pod, error),
            };
            if let Some(attempt) = self.try_commit(profile, pod, plan) {
                return attempt;
            }
        }
        Attempt::Conflicts
    }

    /// Commits the plan; `None` if it no longer holds, and the pod has to be planned again.
    pub(super) fn try_commit(&self, profile: &Profile, pod: &PodInfo, plan: Plan) -> Option<Attempt> {
        let (node, sequence) = (plan.node, plan.cluster_sequence);
        let choice = Choice {
            statistics: plan.statistics,
            scores: plan.scores.clone(),
            cluster_sequence: plan.cluster_sequence,
        };
        match self.commit(profile, pod, plan) {
            Ok(committed) => Some(Attempt::Assumed {
                pod: committed.pod,
                cycle: committed.cycle,
                choice,
                observed: committed.observed,
            }),
            Err(CommitError::Superseded) => Some(Attempt::Superseded),
            Err(CommitError::Conflict) => {
                self.metrics.conflicts.replanned();
                None
            }
            Err(CommitError::Rejected(rejection)) => Some(rejected_on_node((node, sequence), rejection)),
        }
    }

    /// The rotation of the next cycle.
    pub(super) fn next_rotation(&self) -> Rotation {
        Rotation {
            start: self.start.load(Ordering::Relaxed),
            turn: self.turn.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn plan(&self, profile: &Profile, pod: &PodInfo, cache: &mut SignatureCache) -> Result<Plan, PlanError> {
        let rotation = self.next_rotation();
        let cluster = self.cluster.read();
        let planned = plan_cached(profile, pod, &cluster, rotation, cache);
        let evaluated = match &planned {
            Ok(plan) => plan.statistics.evaluated,
            Err(PlanError::Unfit(unfit)) => unfit.evaluated,
            Err(_) => 0,
        };
        self.rotate(rotation, evaluated, cluster.len());
        planned
    }

    /// Moves the first node of the next cycle on by the nodes that a cycle looked at.
    pub(super) fn rotate(&self, rotation: Rotation, evaluated: usize, nodes: usize) {
        let start = (rotation.start + evaluated) % nodes.max(1);
        self.start.store(start, Ordering::Relaxed);
    }

    /// Assumes the pod on the node, if the plan still holds.
    fn commit(&self, profile: &Profile, pod: &PodInfo, plan: Plan) -> Result<CommittedPlan, CommitError> {
        let mut cluster = self.cluster.write();
        // Also if it is another pod of the same name, by which this one was replaced.
        if cluster.find_pod(&pod.key).is_some() {
            return Err(CommitError::Superseded);
        }
        let mut cycle = match plan.is_current(&cluster) {
            true => plan.cycle,
            false => {
                let cycle = fits_node(profile, pod, &cluster, plan.node).ok_or(CommitError::Conflict)?;
                self.metrics.conflicts.revalidated();
                cycle
            }
        };
        let name = CompactString::from(cluster.node(plan.node).name());
        let assumed = Arc::new(pod.assigned_to(&name));
        cluster.assume(assumed.clone());
        match reserve(profile, &mut cycle, &assumed, &name) {
            Ok(timeouts) => {
                if !timeouts.is_empty() {
                    profile.waiting_pods.add(assumed.clone(), timeouts);
                }
                Ok(CommittedPlan {
                    pod: assumed,
                    cycle,
                    observed: cluster.observed(),
                })
            }
            Err(rejection) => {
                cluster.remove_pod(&pod.key);
                Err(CommitError::Rejected(rejection))
            }
        }
    }

    pub(super) fn handle_plan_error(
        &self,
        profile: &Profile,
        pod: &Arc<PodInfo>,
        error: PlanError,
    ) -> Attempt {
        match error {
            PlanError::NoNodes => Attempt::Failed {
                message: "no nodes available to schedule pods".to_owned(),
                is_rejected: true,
            },
            PlanError::Failed(rejection) => Attempt::Failed {
                message: rejection.to_string(),
                is_rejected: false,
            },
            PlanError::Unfit(unfit) => {
                let mut failure = self.post_filter(profile, pod, *unfit);
                self.nominate(pod, &mut failure);
                Attempt::Unschedulable(Box::new(failure))
            }
        }
    }

    /// Counts the pod on its nominated node, so that no pod of lower priority takes what preemption frees.
    pub(super) fn nominate(&self, pod: &Arc<PodInfo>, failure: &mut Failure) {
        match failure.nominated_node.as_deref() {
            Some("") => self.cluster.write().remove_nomination(&pod.key),
            Some(node) => self.cluster.write().nominate(pod.clone(), node),
            None => {}
        }
    }
}

/// Runs the Reserve and Permit plugins; after a rejection, all reservations are taken back. Returns the plugins that let the
/// pod wait, and how long.
fn reserve(
    profile: &Profile,
    cycle: &mut CycleState,
    pod: &PodInfo,
    node: &str,
) -> Result<BTreeMap<&'static str, Duration>, Rejection> {
    let recorder = &profile.recorder;
    let reserved = recorder.timed(ExtensionPoint::Reserve, StatusCode::of, || {
        profile.reserve.iter().try_for_each(|plugin| {
            let began = recorder.start_if(cycle.is_sampled());
            let result = plugin.reserve(cycle, pod, node);
            let (point, status) = (ExtensionPoint::Reserve, StatusCode::of(&result));
            recorder.observe_plugin(point, plugin.name(), status, began);
            result.map_err(|rejection| rejection.by(plugin.name()))
        })
    });
    let permitted = reserved.and_then(|()| {
        recorder.timed(ExtensionPoint::Permit, StatusCode::of, || {
            permit(profile, cycle, pod, node)
        })
    });
    if permitted.is_err() {
        unreserve(profile, cycle, pod, node);
    }
    permitted
}

fn permit(
    profile: &Profile,
    cycle: &CycleState,
    pod: &PodInfo,
    node: &str,
) -> Result<BTreeMap<&'static str, Duration>, Rejection> {
    let mut timeouts = BTreeMap::new();
    for plugin in &profile.permit {
        let name = plugin.name();
        let began = profile.recorder.start_if(cycle.is_sampled());
        let result = plugin.permit(cycle, pod, node);
        let (point, status) = (ExtensionPoint::Permit, StatusCode::of(&result));
        profile.recorder.observe_plugin(point, name, status, began);
        if let PermitResult::Wait(timeout) = result.map_err(|rejection| rejection.by(name))? {
            timeouts.insert(name, timeout);
        }
    }
    Ok(timeouts)
}

/// Takes all reservations back, the last one first.
pub(crate) fn unreserve(profile: &Profile, cycle: &mut CycleState, pod: &PodInfo, node: &str) {
    profile
        .recorder
        .timed(ExtensionPoint::Unreserve, StatusCode::success, || {
            for plugin in profile.reserve.iter().rev() {
                plugin.unreserve(cycle, pod, node);
            }
        });
}

/// The attempt of a pod that a plugin rejected on the node that was chosen for it.
fn rejected_on_node((node, cluster_sequence): (NodeIndex, u64), rejection: Rejection) -> Attempt {
    if !rejection.is_rejected() {
        return Attempt::Failed {
            message: rejection.to_string(),
            is_rejected: false,
        };
    }
    let mut diagnosis = Diagnosis::new(1);
    diagnosis.add(node, rejection);
    Attempt::Unschedulable(Box::new(Failure {
        diagnosis,
        cluster_sequence,
        nominated_node: Some(CompactString::default()),
        action: None,
    }))
}
