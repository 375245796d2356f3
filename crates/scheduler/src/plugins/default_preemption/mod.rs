//! DefaultPreemption: where no node fits a pod, pods of lower priority make space for it.
//!
//! A candidate is a node on which the pod fits once some pods are gone. As few and as unimportant pods as possible are
//! taken, and budgets are violated only where nothing else helps. The pod is nominated to the best candidate; the victims
//! are deleted in the background, and the pod is tried again when they are gone.

mod budgets;
mod candidate;
mod candidate_cache;
mod eviction;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use compact_str::CompactString;
use parking_lot::Mutex;
use serde::Deserialize;
use setpoint_runtime::Cache;

use self::budgets::Budgets;
use self::candidate::{find_candidate, select};
use self::candidate_cache::CandidateCache;
use super::{PluginArgs, PluginError};
use crate::cycle::Diagnosis;
use crate::framework::{
    ActionType, ClusterEvent, Code, EnqueueExtensions, EventChange, EventResource, Handle, Plugin,
    PostFilter, PostFilterInput, PostFilterResult, PreemptionCandidate, QueueingHint, Registration,
    Rejection,
};
use crate::pod_info::{PodInfo, PreemptionPolicy};
use crate::state::NodeIndex;

#[derive(Debug)]
pub(super) struct DefaultPreemption {
    args: DefaultPreemptionArgs,
    budgets: Option<Arc<Cache>>,
    /// Moves the first node that is looked at.
    turn: AtomicUsize,
    /// The uids of pods whose victims are being evicted.
    preempting: Arc<Mutex<BTreeSet<CompactString>>>,
    candidates: Mutex<CandidateCache>,
}

/// Its arguments (upstream: `DefaultPreemptionArgs`).
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DefaultPreemptionArgs {
    min_candidate_nodes_percentage: usize,
    min_candidate_nodes_absolute: usize,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

pub(super) fn build(args: &PluginArgs, handle: &Handle) -> Result<Registration, PluginError> {
    let plugin = Arc::new(DefaultPreemption {
        args: args.decode()?,
        budgets: handle.cache("policy", "poddisruptionbudgets"),
        turn: AtomicUsize::new(0),
        preempting: Arc::default(),
        candidates: Mutex::default(),
    });
    Ok(Registration {
        post_filter: Some(plugin.clone()),
        enqueue: Some(plugin),
        ..Registration::new("DefaultPreemption")
    })
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        "DefaultPreemption"
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, input: &PostFilterInput<'_>) -> PostFilterResult {
        let budgets = Budgets::read(self.budgets.as_deref());
        self.to_result(input, self.preempt_with(input, &budgets))
    }

    fn find_candidates(
        &self,
        input: &PostFilterInput<'_>,
    ) -> Option<Result<Vec<PreemptionCandidate>, PostFilterResult>> {
        let budgets = Budgets::read(self.budgets.as_deref());
        let candidates = self.candidates(input, &budgets);
        Some(candidates.map_err(|failure| self.to_result(input, Err(failure))))
    }

    fn select_candidate(
        &self,
        input: &PostFilterInput<'_>,
        candidates: Vec<PreemptionCandidate>,
    ) -> PostFilterResult {
        let selected = select(candidates).ok_or_else(|| PreemptionFailure {
            message: "no candidate node for preemption".to_owned(),
            clears_nomination: false,
        });
        self.to_result(input, selected)
    }
}

impl DefaultPreemption {
    fn to_result(
        &self,
        input: &PostFilterInput<'_>,
        result: Result<PreemptionCandidate, PreemptionFailure>,
    ) -> PostFilterResult {
        let message = match &result {
            Ok(candidate) => format!(
                "found a potential placement for pod on node {}, preempting {} victims",
                candidate.node,
                candidate.victims.len()
            ),
            Err(failure) => failure.message.clone(),
        };
        let message = format!("preemption: {message}");
        match result {
            Err(failure) => PostFilterResult {
                message,
                nominated_node: failure.clears_nomination.then(Default::default),
                victims: Some(0),
                ..PostFilterResult::default()
            },
            Ok(candidate) => PostFilterResult {
                message,
                nominated_node: Some(candidate.node.clone()),
                is_successful: true,
                victims: Some(candidate.victims.len()),
                action: Some(eviction::action(input, candidate, self.preempting.clone())),
            },
        }
    }
}

impl EnqueueExtensions for DefaultPreemption {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE)]
    }

    fn queueing_hint(&self, _: &PodInfo, _: ClusterEvent, _: &EventChange) -> QueueingHint {
        QueueingHint::Skip
    }
}

/// Why preemption does not help.
struct PreemptionFailure {
    message: String,
    /// Whether an earlier nomination is pointless.
    clears_nomination: bool,
}

impl DefaultPreemption {
    fn preempt_with(
        &self,
        input: &PostFilterInput<'_>,
        budgets: &Budgets,
    ) -> Result<PreemptionCandidate, PreemptionFailure> {
        let candidates = self.candidates(input, budgets)?;
        Ok(select(candidates).expect("there is a candidate, else there is a failure"))
    }

    /// The nodes on which preemption helps, one at least.
    fn candidates(
        &self,
        input: &PostFilterInput<'_>,
        budgets: &Budgets,
    ) -> Result<Vec<PreemptionCandidate>, PreemptionFailure> {
        if self.preempting.lock().contains(&input.pod.uid) {
            return Err(PreemptionFailure {
                message: "waiting for the preemption for this pod to be finished".to_owned(),
                clears_nomination: false,
            });
        }
        check_eligible(input).map_err(|message| PreemptionFailure {
            message: message.to_owned(),
            clears_nomination: false,
        })?;
        let nodes = potential_nodes(input);
        let enough = self.candidates_to_find(nodes.len());
        let offset = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut diagnosis = Diagnosis::new(input.cluster.len());
        let reason = "Preemption is not helpful for scheduling";
        diagnosis.absent = Some(Rejection::unresolvable(reason));
        let mut cache = self.candidates.lock();
        let mut cache = cache.prepare(input, budgets);
        let (mut good, mut violating) = (Vec::new(), Vec::new());
        for position in 0..nodes.len() {
            let node = nodes[(offset + position) % nodes.len()];
            let candidate = match &mut cache {
                Some(cache) => cache.candidate(input, node, budgets),
                None => find_candidate(input, node, budgets),
            };
            match candidate {
                Ok(candidate) if candidate.violations == 0 => good.push(candidate),
                Ok(candidate) => violating.push(candidate),
                Err(rejection) => diagnosis.add(node, rejection),
            }
            if !good.is_empty() && good.len() + violating.len() >= enough {
                break;
            }
        }
        good.append(&mut violating);
        match good.is_empty() {
            false => Ok(good),
            true => Err(PreemptionFailure {
                message: diagnosis.to_string(),
                clears_nomination: true,
            }),
        }
    }

    fn candidates_to_find(&self, nodes: usize) -> usize {
        let share = nodes * self.args.min_candidate_nodes_percentage / 100;
        share.max(self.args.min_candidate_nodes_absolute).min(nodes)
    }
}

/// Whether the pod may preempt others now.
fn check_eligible(input: &PostFilterInput<'_>) -> Result<(), &'static str> {
    let pod = input.pod;
    if pod.spec.preemption_policy == PreemptionPolicy::Never {
        return Err("not eligible due to preemptionPolicy=Never.");
    }
    let known = input.cluster.nominated().node_of(&pod.key);
    let Some(node) = input.cluster.find_node(known.unwrap_or(&pod.nominated_node)) else {
        return Ok(());
    };
    let rejection = input.diagnosis.rejection(node.index);
    if rejection.is_some_and(|rejection| rejection.code == Code::UnschedulableAndUnresolvable) {
        return Ok(());
    }
    let is_going = |victim: &Arc<PodInfo>| victim.priority() < pod.priority() && victim.is_preempted;
    match node.pods().iter().any(is_going) {
        true => Err("not eligible due to a terminating pod on the nominated node."),
        false => Ok(()),
    }
}

/// The nodes that were rejected for a reason that preemption may resolve.
fn potential_nodes(input: &PostFilterInput<'_>) -> Vec<NodeIndex> {
    let diagnosis = input.diagnosis;
    let is_potential = |rejection: &Rejection| rejection.code == Code::Unschedulable;
    if diagnosis.absent.as_ref().is_some_and(is_potential) {
        return input.cluster.nodes().live().to_vec();
    }
    let rejected = diagnosis
        .nodes
        .iter()
        .filter(|(_, rejection)| is_potential(rejection));
    rejected.map(|(node, _)| *node).collect()
}

#[cfg(test)]
mod tests;
