//! PreScore and Score: preferred terms of the pod, and terms of existing pods that select it.

use std::sync::Arc;

use super::InterPodAffinity;
use crate::framework::{CycleState, MAX_SCORE, NodeScore, PreScore, PreScoreResult, Rejection, Score};
use crate::pod_info::PodInfo;
use crate::state::{
    ClusterState, NodeIndex, NodeRef, TermKind, TopologyColumn, TopologyCounts, TopologyTerm,
};

/// What Score needs: the weight that each pod of a domain adds to its nodes.
#[derive(Debug, Clone)]
struct ScoreState {
    terms: Vec<WeightedCounts>,
}

#[derive(Debug, Clone)]
struct WeightedCounts {
    column: Arc<TopologyColumn>,
    weight: i64,
    counts: Arc<TopologyCounts>,
}

impl PreScore for InterPodAffinity {
    fn pre_score(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
        _: &[NodeIndex],
    ) -> Result<PreScoreResult, Rejection> {
        let affinity = &pod.spec.affinity;
        let has_preferences = !affinity.preferred.is_empty() || !affinity.preferred_anti.is_empty();
        if self.ignore_preferred_terms_of_existing_pods && !has_preferences {
            return Ok(PreScoreResult::Skip);
        }
        let weighted = |term: &TopologyTerm, weight: i64, counts: Arc<TopologyCounts>| WeightedCounts {
            column: cluster.topology(&term.topology_key),
            weight,
            counts,
        };
        let own = |term: &TopologyTerm, weight: i64| weighted(term, weight, cluster.matching_pods(term));
        let preferred = affinity.preferred.iter();
        let preferred = preferred.map(|one| own(&one.term, i64::from(one.weight)));
        let anti = affinity.preferred_anti.iter();
        let anti = anti.map(|one| own(&one.term, -i64::from(one.weight)));
        let existing = cluster.existing_terms().matching(pod, cluster.namespaces());
        let existing = existing.filter_map(|(existing, counts)| {
            let weight = self.weight_of(existing.kind)?;
            Some(weighted(&existing.term, weight, counts.clone()))
        });
        let terms = preferred.chain(anti).chain(existing);
        let terms: Vec<_> = terms.filter(|term| !term.counts.is_empty()).collect();
        if terms.is_empty() {
            return Ok(PreScoreResult::Skip);
        }
        cycle.write_for_planning(ScoreState { terms });
        Ok(PreScoreResult::Score)
    }
}

impl Score for InterPodAffinity {
    fn score(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> i64 {
        let terms = cycle.read::<ScoreState>().map_or(&[][..], |state| &state.terms);
        let scores = terms.iter().filter_map(|term| {
            let domain = term.column.domain(node.index)?;
            Some(term.weight * term.counts.in_domain(domain))
        });
        scores.sum()
    }

    /// Scales the scores from their lowest to their highest value; scores may be negative.
    fn normalize(&self, _: &CycleState, _: &PodInfo, scores: &mut [NodeScore]) {
        let all = scores.iter().map(|one| one.score);
        let lowest = all.clone().min().unwrap_or(0);
        let range = all.max().unwrap_or(0) - lowest;
        for one in scores {
            one.score = match range {
                0 => 0,
                range => (MAX_SCORE as f64 * ((one.score - lowest) as f64 / range as f64)) as i64,
            };
        }
    }

    fn normalizes(&self) -> bool {
        true
    }
}

impl InterPodAffinity {
    /// The weight of a term of an existing pod.
    fn weight_of(&self, kind: TermKind) -> Option<i64> {
        match kind {
            TermKind::RequiredAffinity => {
                let weight = i64::from(self.hard_pod_affinity_weight);
                (weight > 0).then_some(weight)
            }
            TermKind::RequiredAntiAffinity => None,
            TermKind::PreferredAffinity(weight) => Some(i64::from(weight)),
            TermKind::PreferredAntiAffinity(weight) => Some(-i64::from(weight)),
        }
    }
}
