//! The extension points, in the order in which a pod passes them. Names and contracts are those of upstream's
//! `kube-scheduler/framework/interface.go`.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use setpoint_api::{Clock, ResourceVersion, Status};
use setpoint_runtime::events::Recorder;
use setpoint_runtime::{Client, Context};

use super::cycle_state::CycleState;
use super::events::{ClusterEvent, EventChange, QueueingHint};
use super::profile::Profile;
use super::rejection::Rejection;
use crate::cycle::Diagnosis;
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeIndex, NodeRef};

/// The highest score of a [`Score`] plugin after normalization.
pub const MAX_SCORE: i64 = 100;

/// A future of a plugin.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A scheduling plugin.
pub trait Plugin: fmt::Debug + Send + Sync {
    /// The plugin's name in Kubernetes.
    fn name(&self) -> &'static str;
}

/// Decides whether a pod may enter the active queue.
pub trait PreEnqueue: Plugin {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection>;
}

/// Orders the active queue.
pub trait QueueSort: Plugin {
    /// The lower key is popped first; among equal ones, the pod that came first.
    fn sort_key(&self, pod: &PodInfo) -> i64;
}

/// Computes what Filter needs, once per cycle.
pub trait PreFilter: Plugin {
    /// A rejection here rejects the pod for all nodes.
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<PreFilterResult, Rejection>;

    /// Updates the cycle state as if `added` were on the node. Called on a clone, for nominated pods and preemption.
    fn add_pod(&self, _cycle: &mut CycleState, _pod: &PodInfo, _added: &PodInfo, _node: NodeRef<'_>) {}

    /// Updates the cycle state as if `removed` were not on the node.
    fn remove_pod(&self, _cycle: &mut CycleState, _pod: &PodInfo, _removed: &PodInfo, _node: NodeRef<'_>) {}
}

/// The result of a PreFilter plugin that does not reject the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreFilterResult {
    AllNodes,
    /// Only these nodes can fit.
    Nodes(NodeNames),
    /// The plugin's Filter has nothing to check for this pod.
    Skip,
}

/// Names of nodes.
pub type NodeNames = BTreeSet<CompactString>;

/// Rules out nodes.
pub trait Filter: Plugin {
    /// Whether the pod can run on the node. Called for every pod and node: it must be cheap. The node may be a copy with
    /// pods added or removed, so everything about the node comes from it, and not from the cluster state.
    fn filter(&self, cycle: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection>;
}

/// Tries to make the pod schedulable when no node fits.
pub trait PostFilter: Plugin {
    fn post_filter(&self, input: &PostFilterInput<'_>) -> PostFilterResult;

    /// The first half of [`Self::post_filter`], if extenders change the candidates for preemption before one is selected:
    /// the candidates, or the result if there are none. `None` if the plugin does not preempt.
    fn find_candidates(
        &self,
        _: &PostFilterInput<'_>,
    ) -> Option<Result<Vec<PreemptionCandidate>, PostFilterResult>> {
        None
    }

    /// The second half: the result for the candidates that extenders left.
    fn select_candidate(&self, _: &PostFilterInput<'_>, _: Vec<PreemptionCandidate>) -> PostFilterResult {
        PostFilterResult::default()
    }
}

/// A node on which a pod fits without the victims.
#[derive(Debug, Clone)]
pub struct PreemptionCandidate {
    pub node: CompactString,
    /// Never empty; the most important first.
    pub victims: Vec<Arc<PodInfo>>,
    /// The number of victims whose budget does not allow it.
    pub violations: usize,
}

/// The failed cycle that a PostFilter plugin works on.
#[derive(Debug)]
pub struct PostFilterInput<'a> {
    pub profile: &'a Profile,
    pub cycle: &'a CycleState,
    pub pod: &'a Arc<PodInfo>,
    pub cluster: &'a ClusterState,
    pub diagnosis: &'a Diagnosis,
}

/// The result of a PostFilter plugin.
#[derive(Debug, Default)]
pub struct PostFilterResult {
    /// The text that is added to the message of the failed cycle.
    pub message: String,
    /// The node that the pod is nominated to; `Some("")` clears the nomination.
    pub nominated_node: Option<CompactString>,
    /// Whether the pod may fit later thanks to this plugin: no further plugin runs.
    pub is_successful: bool,
    /// The number of pods that are preempted; `None` if the plugin does not preempt.
    pub victims: Option<usize>,
    /// What has to be done through the API, in the background.
    pub action: Option<PostFilterAction>,
}

/// API requests of a PostFilter plugin.
pub struct PostFilterAction(pub Box<dyn FnOnce(Context) -> BoxFuture<'static, Result<(), Status>> + Send>);

/// Computes what Score needs, once per cycle.
pub trait PreScore: Plugin {
    fn pre_score(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection>;
}

/// The result of a PreScore plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreScoreResult {
    Score,
    /// The plugin's Score is the same for all nodes.
    Skip,
}

/// Ranks nodes that fit.
pub trait Score: Plugin {
    /// The score of a node: any number if the plugin normalizes, else from 0 to [`MAX_SCORE`].
    fn score(&self, cycle: &CycleState, pod: &PodInfo, node: NodeRef<'_>) -> i64;

    /// Changes the scores of all nodes to the range from 0 to [`MAX_SCORE`].
    fn normalize(&self, _cycle: &CycleState, _pod: &PodInfo, _scores: &mut [NodeScore]) {}

    /// Whether [`Self::normalize`] changes scores: it then has to run again when any score changes.
    fn normalizes(&self) -> bool {
        false
    }
}

/// The score of a node by one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeScore {
    pub node: NodeIndex,
    pub score: i64,
}

/// Keeps the plugin's own state in step with assumed pods.
pub trait Reserve: Plugin {
    /// Called once the pod is assumed on the node. If it or a later step fails, `unreserve` is called.
    fn reserve(&self, cycle: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection>;

    /// Takes a reservation back; must do nothing if there is none.
    fn unreserve(&self, cycle: &mut CycleState, pod: &PodInfo, node: &str);

    /// Takes back what PreBind wrote through the API, after the pod could not be bound. Not called if another scheduler bound
    /// the pod: it may use what was written.
    fn revert<'a>(&'a self, _: &'a BindRequest) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Lets an assumed pod be bound, rejects it, or lets it wait.
///
/// A pod that waits keeps its node. The plugin finds it in [`super::Handle::waiting_pods`] and calls
/// [`super::WaitingPod::allow`] or [`super::WaitingPod::reject`] once it knows; after the timeout the pod is rejected, its
/// reservations are taken back, and it waits in the queue for an event that the plugin registered.
pub trait Permit: Plugin {
    /// Called under the lock of the shared state, after all reservations: it must be short, and may look at the pods that
    /// wait, but not call [`super::WaitingPod::allow`] for the pod itself, which waits only after all plugins were called.
    fn permit(&self, cycle: &CycleState, pod: &PodInfo, node: &str) -> Result<PermitResult, Rejection>;
}

/// The result of a Permit plugin that does not reject the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitResult {
    Allow,
    /// The pod waits until the plugin allows it, at most this long (and at most 15 minutes).
    Wait(Duration),
}

/// Prepares the binding through the API, such as volumes and claims.
pub trait PreBind: Plugin {
    /// Whether [`Self::pre_bind`] has anything to do for the pod.
    fn pre_bind_pre_flight(&self, cycle: &CycleState, pod: &PodInfo, node: &str) -> bool;

    /// Returns the new version of the pod if its status was written: the binding names the version that it is based on.
    fn pre_bind<'a>(
        &'a self,
        request: &'a BindRequest,
    ) -> BoxFuture<'a, Result<Option<ResourceVersion>, Rejection>>;
}

/// A pod and the node that it is to be bound to, with what the plugins computed in the cycle.
#[derive(Debug, Clone)]
pub struct BindRequest {
    pub cycle: Arc<CycleState>,
    pub pod: Arc<PodInfo>,
    pub node: CompactString,
    /// The version of the pods by which the node was selected.
    pub observed: ResourceVersion,
    pub client: Client,
    /// Posts Bindings. Its field manager is that of no other scheduler: by it the API server finds the bindings of others.
    pub binding_client: Client,
    pub clock: Arc<dyn Clock>,
    /// Records events of the scheduler that the pod names.
    pub events: Recorder,
}

/// Binds the pod. The first plugin that does not skip ends the list.
pub trait Bind: Plugin {
    /// `None` if the plugin leaves the pod to the next one.
    fn bind<'a>(&'a self, request: &'a BindRequest) -> BoxFuture<'a, Option<Result<(), BindError>>>;
}

/// Why a binding failed.
#[derive(Debug)]
pub enum BindError {
    /// Another scheduler bound the pod first, or it was changed or deleted: the normal end of a race.
    Superseded,
    /// Another scheduler has bound pods to the node since it was observed.
    NodeChanged,
    /// It can be tried again.
    Failed(Box<Status>),
}

/// Runs after a pod was bound.
pub trait PostBind: Plugin {
    fn post_bind(&self, cycle: &CycleState, pod: &PodInfo, node: &str);
}

/// Registers the events that may make a pod schedulable that this plugin rejected.
pub trait EnqueueExtensions: Plugin {
    fn events_to_register(&self) -> Vec<ClusterEvent>;

    /// Whether a registered event may make this pod schedulable, as far as this plugin is concerned.
    fn queueing_hint(&self, _pod: &PodInfo, _event: ClusterEvent, _change: &EventChange) -> QueueingHint {
        QueueingHint::Queue
    }
}

/// Declares what the filter and score results of a plugin depend on, so that equal pods share them.
pub trait Sign: Plugin {
    /// If it is [`Dependency::Domains`] for one pod and [`Dependency::Node`] for another with the same spec, the plugin
    /// must have nothing to decide for the latter.
    fn dependency(&self, pod: &PodInfo, cluster: &ClusterState) -> Dependency;
}

/// What the results of a plugin for a pod depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// On the pod's spec and on the node's own row: the result holds while the node's sequence does.
    Node,
    /// On the pods in the domains of nodes, too: PreFilter, Filter, PreScore and Score of this plugin run in every cycle,
    /// while equal pods still share the results of the others.
    Domains,
    /// On other pods, nodes or objects, too: every cycle computes everything again.
    Cluster,
}

impl fmt::Debug for PostFilterAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostFilterAction")
    }
}
