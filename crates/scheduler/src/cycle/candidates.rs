//! The steps of a cycle with extenders: the plugins find candidates, extenders are requested without a lock, and the
//! plugins score what they leave.

use std::collections::HashMap;

use compact_str::CompactString;

use super::{
    Diagnosis, Plan, PlanError, Rotation, Statistics, Unfit, find_feasible, score, select_best, total,
};
use crate::extender::Candidate;
use crate::framework::{CycleState, Dependency, Profile};
use crate::pod_info::PodInfo;
use crate::state::ClusterState;

/// The nodes that the plugins accept.
#[derive(Debug)]
pub(crate) struct Candidates {
    pub(crate) nodes: Vec<Candidate>,
    pub(crate) diagnosis: Diagnosis,
    pub(crate) evaluated: usize,
    cycle: CycleState,
    cluster_sequence: u64,
    terms_sequence: u64,
    dependency: Dependency,
}

/// Finds the nodes that the plugins accept.
pub(crate) fn find_candidates(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    rotation: Rotation,
) -> Result<Candidates, PlanError> {
    if cluster.is_empty() {
        return Err(PlanError::NoNodes);
    }
    let mut cycle = rotation.new_cycle();
    let outcome = find_feasible(profile, pod, cluster, rotation.start, &mut cycle)?;
    let nodes = outcome.feasible.iter().map(|index| Candidate {
        node: *index,
        name: cluster.node(*index).name().into(),
        sequence: cluster.nodes().sequence(*index),
        object: None,
    });
    Ok(Candidates {
        nodes: nodes.collect(),
        evaluated: outcome.feasible.len() + outcome.diagnosis.nodes.len(),
        dependency: profile.filter_dependency(profile.dependency(pod, cluster), &cycle),
        diagnosis: outcome.diagnosis,
        cycle,
        cluster_sequence: cluster.sequence(),
        terms_sequence: cluster.existing_terms().sequence(),
    })
}

impl Candidates {
    /// The result of a cycle in which extenders left no node.
    pub(crate) fn into_unfit(self) -> PlanError {
        PlanError::Unfit(Box::new(Unfit {
            diagnosis: self.diagnosis,
            cycle: self.cycle,
            evaluated: self.evaluated,
            cluster_sequence: self.cluster_sequence,
        }))
    }
}

/// Selects the best candidate by the scores of the plugins and of the extenders. `None` if no candidate is left, since nodes
/// were removed meanwhile.
pub(crate) fn select_candidate(
    profile: &Profile,
    pod: &PodInfo,
    cluster: &ClusterState,
    mut candidates: Candidates,
    (extender_scores, turn): (&[HashMap<CompactString, i64>], usize),
) -> Option<Result<Plan, PlanError>> {
    candidates.nodes.retain(|candidate| {
        let node = cluster.find_node(&candidate.name);
        node.is_some_and(|node| node.index == candidate.node)
    });
    let nodes: Vec<_> = candidates.nodes.iter().map(|candidate| candidate.node).collect();
    let mut cycle = candidates.cycle;
    let scores = match score(profile, pod, cluster, &mut cycle, &nodes) {
        Ok(scores) => scores,
        Err(rejection) => return Some(Err(PlanError::Failed(rejection))),
    };
    let mut sums = total(&nodes, &scores);
    for (sum, candidate) in sums.iter_mut().zip(&candidates.nodes) {
        let added = extender_scores
            .iter()
            .filter_map(|scores| scores.get(&candidate.name));
        *sum += added.sum::<i64>();
    }
    if nodes.is_empty() {
        return None;
    }
    let best = select_best(&sums, turn);
    cycle.end_planning();
    let of_best = scores
        .iter()
        .map(|plugin| (plugin.plugin, plugin.scores[best].score));
    Some(Ok(Plan {
        node: nodes[best],
        node_sequence: candidates.nodes[best].sequence,
        cluster_sequence: candidates.cluster_sequence,
        dependency: candidates.dependency,
        terms_sequence: candidates.terms_sequence,
        cycle,
        statistics: Statistics {
            evaluated: candidates.evaluated,
            feasible: nodes.len(),
        },
        scores: of_best.collect(),
    }))
}
