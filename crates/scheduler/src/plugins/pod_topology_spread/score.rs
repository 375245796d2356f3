//! PreScore and Score: constraints with `ScheduleAnyway`.

use std::collections::{HashMap, HashSet};

use compact_str::CompactString;

use super::PodTopologySpread;
use super::constraint::{Constraint, HOSTNAME, MatchingPods, has_all_keys};
use crate::framework::{CycleState, MAX_SCORE, NodeScore, PreScore, PreScoreResult, Rejection, Score};
use crate::pod_info::PodInfo;
use crate::pod_info::affinity::UnsatisfiableAction;
use crate::state::{ClusterState, NodeIndex, NodeRef};

/// What Score needs.
#[derive(Debug, Clone)]
struct ScoreState {
    constraints: Vec<ScoredConstraint>,
    /// The nodes without all topology keys: they get the lowest score.
    ignored: HashSet<NodeIndex>,
}

#[derive(Debug, Clone)]
struct ScoredConstraint {
    constraint: Constraint,
    matching: MatchingPods,
    /// The matching pods of each domain that has a feasible node; empty for host names, which are read per node.
    domains: HashMap<CompactString, i64>,
    /// The weight of a pod: it grows with the number of domains, so that large topologies do not outweigh small ones.
    weight: f64,
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection> {
        let constraints = self.constraints(pod, UnsatisfiableAction::ScheduleAnyway);
        if constraints.is_empty() {
            return Ok(PreScoreResult::Skip);
        }
        let needs_all_keys = !pod.spec.topology_spread_constraints.is_empty() || !self.is_system_defaulted;
        let has_keys = |node: NodeRef<'_>| {
            !needs_all_keys || has_all_keys(&constraints, |key| node.label(key).is_some())
        };
        let (scored, ignored): (Vec<NodeIndex>, Vec<NodeIndex>) =
            nodes.iter().partition(|index| has_keys(cluster.node(**index)));
        let mut states: Vec<ScoredConstraint> = constraints
            .iter()
            .map(|one| ScoredConstraint::new(one, pod, cluster, &scored))
            .collect();
        for index in cluster.nodes().live() {
            let node = cluster.node(*index);
            if has_keys(node) {
                states.iter_mut().for_each(|state| state.count(pod, node));
            }
        }
        cycle.write_for_planning(ScoreState {
            constraints: states,
            ignored: ignored.into_iter().collect(),
        });
        Ok(PreScoreResult::Score)
    }
}

impl Score for PodTopologySpread {
    fn score(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> i64 {
        let Some(state) = cycle.read::<ScoreState>() else {
            return 0;
        };
        if state.ignored.contains(&node.index) {
            return 0;
        }
        let scores = state.constraints.iter().filter_map(|one| one.score(node));
        scores.sum::<f64>().round() as i64
    }

    /// The node with the fewest pods gets the highest score.
    fn normalize(&self, cycle: &CycleState, _: &PodInfo, scores: &mut [NodeScore]) {
        let Some(state) = cycle.read::<ScoreState>() else {
            return;
        };
        let is_ignored = |one: &NodeScore| state.ignored.contains(&one.node);
        let counted = scores.iter().filter(|one| !is_ignored(one)).map(|one| one.score);
        let lowest = counted.clone().min().unwrap_or(i64::MAX);
        let highest = counted.max().unwrap_or(0).max(0);
        for one in scores {
            one.score = match highest {
                _ if is_ignored(one) => 0,
                0 => MAX_SCORE,
                highest => MAX_SCORE * (highest + lowest - one.score) / highest,
            };
        }
    }

    fn normalizes(&self) -> bool {
        true
    }
}

impl ScoredConstraint {
    fn new(constraint: &Constraint, pod: &PodInfo, cluster: &ClusterState, nodes: &[NodeIndex]) -> Self {
        let is_hostname = constraint.topology_key == HOSTNAME;
        let mut domains = HashMap::new();
        if !is_hostname {
            for index in nodes {
                let value = cluster.node(*index).label(&constraint.topology_key);
                domains.insert(value.unwrap_or_default().into(), 0);
            }
        }
        let size = if is_hostname { nodes.len() } else { domains.len() };
        Self {
            constraint: constraint.clone(),
            matching: constraint.matching_pods(pod, cluster),
            domains,
            weight: ((size + 2) as f64).ln(),
        }
    }

    /// Counts the matching pods of a node in its domain.
    fn count(&mut self, pod: &PodInfo, node: NodeRef<'_>) {
        let pods = self.matching.on_node(node.index);
        let value = node.label(&self.constraint.topology_key).unwrap_or_default();
        if pods > 0
            && let Some(sum) = self.domains.get_mut(value)
            && self.constraint.includes(pod, node)
        {
            *sum += pods;
        }
    }

    fn score(&self, node: NodeRef<'_>) -> Option<f64> {
        let value = node.label(&self.constraint.topology_key)?;
        let pods = match self.constraint.topology_key == HOSTNAME {
            true => self.matching.on_node(node.index),
            false => self.domains.get(value).copied().unwrap_or(0),
        };
        Some(pods as f64 * self.weight + (self.constraint.max_skew - 1) as f64)
    }
}
