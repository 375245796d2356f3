//! The scheduling cycle: the best node for a pod, or why no node fits. Pure.
//!
//! A cycle plans on a shared state that other cycles change meanwhile: its [`Plan`] names the node and the sequence number
//! at which the node was seen, so that the commit can check whether the plan still holds.

mod candidates;
mod diagnosis;
mod signature_cache;

pub(crate) use candidates::{Candidates, find_candidates, select_candidate};
pub use diagnosis::Diagnosis;
pub use signature_cache::{SignatureCache, plan_cached};

use crate::framework::{CycleState, Dependency, NodeLimit, PluginScores, Profile, Rejection};
use crate::metrics::{ExtensionPoint, FilterTally, StatusCode, is_sampled};
use crate::pod_info::PodInfo;
use crate::state::{ClusterState, NodeIndex};

/// Up to this many nodes, every node is filtered (upstream: `minFeasibleNodesToFind`).
const MIN_FEASIBLE_NODES: usize = 100;
/// The least share of nodes in percent (upstream: `minFeasibleNodesPercentageToFind`).
const MIN_PERCENTAGE: usize = 5;

/// A node for a pod.
#[derive(Debug)]
pub struct Plan {
    pub node: NodeIndex,
    /// The node's sequence when it was filtered.
    pub node_sequence: u64,
    /// The state's sequence when the cycle began.
    pub cluster_sequence: u64,
    /// What the fit of the pod depends on besides the node.
    pub dependency: Dependency,
    /// The sequence of the affinity terms of existing pods when the cycle began: a new one may concern any pod.
    pub terms_sequence: u64,
    /// What the plugins computed, for the steps that follow.
    pub cycle: CycleState,
    pub statistics: Statistics,
    /// The weighted scores of the node by plugin; empty if it was the only feasible one.
    pub scores: Vec<(&'static str, i64)>,
}

/// How many nodes a cycle looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    pub evaluated: usize,
    pub feasible: usize,
}

impl Plan {
    /// Whether nothing changed that the plan depends on.
    pub fn is_current(&self, cluster: &ClusterState) -> bool {
        let nodes = cluster.nodes();
        nodes.sequence(self.node) == self.node_sequence
            && cluster.existing_terms().sequence() == self.terms_sequence
            && (self.dependency == Dependency::Node || cluster.sequence() == self.cluster_sequence)
    }
}

/// A cycle that found no node.
#[derive(Debug)]
pub enum PlanError {
    /// The cluster has no nodes.
    NoNodes,
    /// No node fits.
    Unfit(Box<Unfit>),
    /// A plugin failed.
    Failed(Rejection),
}

/// The result of a cycle in which no node fits.
#[derive(Debug)]
pub struct Unfit {
    pub diagnosis: Diagnosis,
    pub cycle: CycleState,
    pub evaluated: usize,
    /// The state's sequence when the cycle began.
    pub cluster_sequence: u64,
}

/// The rotation of cycles: where to start among the nodes, and which of equal nodes to take.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rotation {
    /// Position of the first node to filter.
    pub start: usize,
    /// Selects among nodes with the same score.
    pub turn: usize,
}

impl Rotation {
    /// The state of a new cycle, of which some have their plugins timed.
    fn new_cycle(self) -> CycleState {
        let mut cycle = CycleState::default();
        cycle.set_sampled(is_sampled(self.turn));
        cycle
    }
}

/// The nodes that pass the filters, or the reasons of those that do not.
struct FilterOutcome {
    feasible: Vec<NodeIndex>,
    diagnosis: Diagnosis,
}

/// Finds the best node for the pod.
///
/// Filtering starts at the rotation's position and ends once enough feasible nodes were found; the caller moves it on by
/// the number of evaluated nodes, so that over time all nodes are considered.
pub fn plan(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    rotation: Rotation,
) -> Result<Plan, PlanError> {
    if cluster.is_empty() {
        return Err(PlanError::NoNodes);
    }
    let mut cycle = rotation.new_cycle();
    let outcome = find_feasible(profile, pod, cluster, rotation.start, &mut cycle)?;
    let feasible = outcome.feasible;
    let statistics = Statistics {
        evaluated: feasible.len() + outcome.diagnosis.nodes.len(),
        feasible: feasible.len(),
    };
    let mut node_scores = Vec::new();
    let node = match feasible[..] {
        [] => {
            return Err(PlanError::Unfit(Box::new(Unfit {
                diagnosis: outcome.diagnosis,
                cycle,
                evaluated: statistics.evaluated,
                cluster_sequence: cluster.sequence(),
            })));
        }
        [only] => only,
        _ => {
            let scores = score(profile, pod, cluster, &mut cycle, &feasible).map_err(PlanError::Failed)?;
            let best = select_best(&total(&feasible, &scores), rotation.turn);
            let of_best = scores
                .iter()
                .map(|plugin| (plugin.plugin, plugin.scores[best].score));
            node_scores.extend(of_best);
            feasible[best]
        }
    };
    let dependency = profile.filter_dependency(profile.dependency(pod, cluster), &cycle);
    cycle.end_planning();
    Ok(Plan {
        node,
        node_sequence: cluster.nodes().sequence(node),
        cluster_sequence: cluster.sequence(),
        dependency,
        terms_sequence: cluster.existing_terms().sequence(),
        cycle,
        statistics,
        scores: node_scores,
    })
}

/// Whether the pod fits one node now: PreFilter and Filter of that node alone. The commit of a plan whose node changed
/// meanwhile depends on it.
pub fn fits_node(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    node: NodeIndex,
) -> Option<CycleState> {
    let node = cluster.node(node);
    node.find_properties()?;
    let mut cycle = CycleState::default();
    let limit = profile.run_pre_filter(&mut cycle, pod, cluster).ok()?;
    if limit.nodes.is_some_and(|names| !names.contains(node.name())) {
        return None;
    }
    profile
        .run_filter_with_nominated(&cycle, pod, node, cluster)
        .ok()?;
    cycle.end_planning();
    Some(cycle)
}

/// The weighted scores of each plugin for the nodes.
pub(crate) fn score(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    cycle: &mut CycleState,
    nodes: &[NodeIndex],
) -> Result<Vec<PluginScores>, Rejection> {
    profile.run_pre_score(cycle, pod, cluster, nodes)?;
    Ok(profile.run_score(cycle, pod, cluster, nodes))
}

fn find_feasible(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    start: usize,
    cycle: &mut CycleState,
) -> Result<FilterOutcome, PlanError> {
    let mut diagnosis = Diagnosis::new(cluster.len());
    let limit = match profile.run_pre_filter(cycle, pod, cluster) {
        Ok(limit) => limit,
        Err(rejected) if !rejected.rejection.is_rejected() => {
            return Err(PlanError::Failed(rejected.rejection));
        }
        Err(rejected) => {
            diagnosis.add_plugin(&rejected.rejection);
            diagnosis.unschedulable_plugins.extend(rejected.plugins);
            diagnosis.pre_filter_message = Some(rejected.rejection.to_string());
            diagnosis.absent = Some(rejected.rejection);
            let feasible = Vec::new();
            return Ok(FilterOutcome { feasible, diagnosis });
        }
    };
    profile
        .recorder
        .timed(ExtensionPoint::Filter, StatusCode::success_or_error, || {
            filter_nodes(profile, pod, cluster, cycle, (start, limit, diagnosis))
        })
}

/// The nodes that pass the filters, from a position on and within the limit of PreFilter.
fn filter_nodes(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    cycle: &CycleState,
    (start, limit, mut diagnosis): (usize, NodeLimit, Diagnosis),
) -> Result<FilterOutcome, PlanError> {
    if let Some(node) = cluster.find_node(&pod.nominated_node)
        && profile
            .run_filter_with_nominated(cycle, pod, node, cluster)
            .is_ok()
    {
        let feasible = vec![node.index];
        return Ok(FilterOutcome { feasible, diagnosis });
    }
    let limited: Option<Vec<NodeIndex>> = limit.nodes.map(|names| {
        let nodes = names.iter().filter_map(|name| cluster.find_node(name));
        nodes.map(|node| node.index).collect()
    });
    if limited.is_some() {
        let reason = format!("node(s) didn't satisfy plugin(s) [{}]", limit.plugins.join(" "));
        diagnosis.absent = Some(Rejection::unresolvable(reason));
        diagnosis.unschedulable_plugins.extend(limit.plugins);
    }
    let nodes = limited.as_deref().unwrap_or(cluster.nodes().live());
    let enough = match profile.score.is_empty() && profile.extenders.is_empty() {
        true => 1,
        false => nodes_to_find(nodes.len(), profile.percentage_of_nodes_to_score),
    };
    let mut feasible = Vec::with_capacity(enough.min(nodes.len()));
    for position in 0..nodes.len() {
        let node = nodes[(start + position) % nodes.len()];
        match profile.run_filter_with_nominated(cycle, pod, cluster.node(node), cluster) {
            Ok(()) => feasible.push(node),
            Err(rejection) if rejection.is_rejected() => diagnosis.add(node, rejection),
            Err(rejection) => return Err(PlanError::Failed(rejection)),
        }
        if feasible.len() >= enough {
            break;
        }
    }
    let mut tally = FilterTally::default();
    feasible.iter().for_each(|_| tally.add(None));
    for (_, rejection) in &diagnosis.nodes {
        tally.add(Some(rejection.plugin));
    }
    profile.recorder.count_filters(cycle.skipped_filters(), &tally);
    Ok(FilterOutcome { feasible, diagnosis })
}

/// How many feasible nodes are enough to score: all in a small cluster, then a share that falls from a half to a
/// twentieth unless the profile sets it.
fn nodes_to_find(nodes: usize, percentage: u32) -> usize {
    if nodes < MIN_FEASIBLE_NODES {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50_usize.saturating_sub(nodes / 125).max(MIN_PERCENTAGE),
        set => set as usize,
    };
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES)
}

/// The sum of the scores of each node.
fn total(nodes: &[NodeIndex], scores: &[PluginScores]) -> Vec<i64> {
    let mut total = vec![0; nodes.len()];
    for plugin in scores {
        for (sum, score) in total.iter_mut().zip(&plugin.scores) {
            *sum += score.score;
        }
    }
    total
}

/// The position of the highest score; equal ones take turns.
fn select_best(total: &[i64], turn: usize) -> usize {
    let best = total.iter().max().copied().unwrap_or_default();
    let count = total.iter().filter(|score| **score == best).count();
    let nth = turn % count.max(1);
    let mut equal = total.iter().enumerate().filter(|(_, score)| **score == best);
    equal.nth(nth).map_or(0, |(position, _)| position)
}

#[cfg(test)]
mod tests;
