//! PreScore and Score: constraints with `ScheduleAnyway`.

use std::collections::HashSet;
use std::sync::Arc;

use super::PodTopologySpread;
use super::constraint::{Constraint, HOSTNAME};
use super::eligibility::{DomainPods, EligibleDomains};
use crate::framework::{CycleState, MAX_SCORE, NodeScore, PreScore, PreScoreResult, Rejection, Score};
use crate::pod_info::PodInfo;
use crate::pod_info::affinity::UnsatisfiableAction;
use crate::state::{ClusterState, NodeIndex, NodeRef, TopologyColumn, TopologyCounts};

/// What Score needs.
#[derive(Debug, Clone)]
struct ScoreState {
    constraints: Vec<ScoredConstraint>,
    /// The nodes without all topology keys: they get the lowest score.
    ignored: HashSet<NodeIndex>,
}

#[derive(Debug, Clone)]
struct ScoredConstraint {
    column: Arc<TopologyColumn>,
    pods: ScoredPods,
    max_skew: i64,
    /// The weight of a pod: it grows with the number of domains, so that large topologies do not outweigh small ones.
    weight: f64,
}

/// The matching pods that a node is scored by.
#[derive(Debug, Clone)]
enum ScoredPods {
    /// Those on the node itself: the constraint is by host name.
    OnNode(Arc<TopologyCounts>),
    InDomain(DomainPods),
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection> {
        let action = UnsatisfiableAction::ScheduleAnyway;
        let constraints = self.constraints(pod, action);
        if constraints.is_empty() {
            return Ok(PreScoreResult::Skip);
        }
        let columns: Vec<_> = constraints
            .iter()
            .map(|one| cluster.topology(&one.topology_key))
            .collect();
        let needs_all_keys = self.needs_all_keys(pod, action);
        let has_keys = |node: &&NodeIndex| {
            !needs_all_keys || columns.iter().all(|column| column.domain(**node).is_some())
        };
        let (scored, ignored): (Vec<NodeIndex>, Vec<NodeIndex>) = nodes.iter().partition(has_keys);
        let eligibility = self.eligibility(pod, action, &constraints, (cluster, &columns));
        let all = constraints.iter().zip(columns).zip(&eligibility.domains);
        let states = all.map(|((constraint, column), eligible)| {
            let counts = constraint.matching_pods(pod, cluster);
            ScoredConstraint::new(constraint, (column, eligible), counts, &scored)
        });
        cycle.write_for_planning(ScoreState {
            constraints: states.collect(),
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
    fn new(
        constraint: &Constraint,
        (column, eligible): (Arc<TopologyColumn>, &EligibleDomains),
        counts: Arc<TopologyCounts>,
        nodes: &[NodeIndex],
    ) -> Self {
        let (size, pods) = match constraint.topology_key == HOSTNAME {
            true => (nodes.len(), ScoredPods::OnNode(counts)),
            false => (
                count_domains(&column, nodes),
                ScoredPods::InDomain(eligible.pods(counts, &column)),
            ),
        };
        Self {
            column,
            pods,
            max_skew: constraint.max_skew,
            weight: ((size + 2) as f64).ln(),
        }
    }

    fn score(&self, node: NodeRef<'_>) -> Option<f64> {
        let domain = self.column.domain(node.index)?;
        let pods = match &self.pods {
            ScoredPods::OnNode(counts) => counts.on_node(node.index),
            ScoredPods::InDomain(pods) => pods.in_domain(domain),
        };
        Some(pods as f64 * self.weight + (self.max_skew - 1) as f64)
    }
}

/// The number of different domains of the nodes. Nodes without the topology key have the domain of the empty value.
fn count_domains(column: &TopologyColumn, nodes: &[NodeIndex]) -> usize {
    let mut is_present = vec![false; column.bound()];
    let mut without_key = 0;
    for node in nodes {
        match column.domain(*node).or_else(|| column.find("")) {
            Some(domain) => is_present[domain.index()] = true,
            None => without_key = 1,
        }
    }
    is_present.iter().filter(|present| **present).count() + without_key
}
