//! PreFilter and Filter: constraints with `DoNotSchedule`.

use std::sync::Arc;

use super::PodTopologySpread;
use super::constraint::Constraint;
use super::eligibility::{DomainPods, EligibleDomains};
use crate::framework::{CycleState, Filter, PreFilter, PreFilterResult, Rejection};
use crate::pod_info::PodInfo;
use crate::pod_info::affinity::UnsatisfiableAction;
use crate::state::{ClusterState, DomainId, NodeRef, TopologyColumn};

const NOT_SATISFIED: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// What Filter needs: the matching pods of each domain, per constraint.
#[derive(Debug, Clone)]
struct FilterState {
    constraints: Arc<[Constraint]>,
    domains: Vec<Domains>,
}

/// The eligible domains of a constraint.
#[derive(Debug, Clone)]
struct Domains {
    column: Arc<TopologyColumn>,
    eligible: Arc<EligibleDomains>,
    pods: DomainPods,
    /// Pods that are tried in a domain, or tried without.
    added: Vec<(DomainId, i64)>,
    /// The least number of pods in a domain.
    minimum: i64,
    /// Whether the pod itself is selected: 1 or 0.
    own: i64,
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(
        &self,
        cycle: &mut CycleState,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Result<PreFilterResult, Rejection> {
        let constraints = self.constraints(pod, UnsatisfiableAction::DoNotSchedule);
        if constraints.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        let domains = self.count_domains(&constraints, pod, cluster);
        cycle.write_for_planning(FilterState {
            constraints: constraints.into(),
            domains,
        });
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, cycle: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: NodeRef<'_>) {
        if let Some(state) = cycle.read_mut::<FilterState>() {
            state.count(pod, added, node, 1);
        }
    }

    fn remove_pod(&self, cycle: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: NodeRef<'_>) {
        if let Some(state) = cycle.read_mut::<FilterState>() {
            state.count(pod, removed, node, -1);
        }
    }
}

impl Filter for PodTopologySpread {
    fn filter(&self, cycle: &CycleState, _: &PodInfo, node: NodeRef<'_>) -> Result<(), Rejection> {
        let Some(state) = cycle.read::<FilterState>() else {
            return Ok(());
        };
        for (constraint, domains) in state.constraints.iter().zip(&state.domains) {
            let Some(domain) = domains.column.domain(node.index) else {
                return Err(Rejection::unresolvable(MISSING_LABEL));
            };
            let minimum = match domains.eligible.len < constraint.min_domains {
                true => 0,
                false => domains.minimum,
            };
            if domains.count(domain) + domains.own - minimum > constraint.max_skew {
                return Err(Rejection::unschedulable(NOT_SATISFIED));
            }
        }
        Ok(())
    }
}

impl PodTopologySpread {
    /// The domains of the nodes that count, with the matching pods on these nodes.
    fn count_domains(
        &self,
        constraints: &[Constraint],
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> Vec<Domains> {
        let columns: Vec<_> = constraints
            .iter()
            .map(|one| cluster.topology(&one.topology_key))
            .collect();
        let action = UnsatisfiableAction::DoNotSchedule;
        let eligibility = self.eligibility(pod, action, constraints, (cluster, &columns));
        let all = constraints.iter().zip(columns).zip(&eligibility.domains);
        let domains = all.map(|((constraint, column), eligible)| {
            let pods = eligible.pods(constraint.matching_pods(pod, cluster), &column);
            Domains {
                minimum: minimum_or_none(pods.minimum(eligible.len)),
                own: i64::from(constraint.selector.matches(&pod.labels)),
                added: Vec::new(),
                eligible: eligible.clone(),
                column,
                pods,
            }
        });
        domains.collect()
    }
}

impl FilterState {
    /// Counts another pod on the node `by` times.
    fn count(&mut self, pod: &PodInfo, other: &PodInfo, node: NodeRef<'_>, by: i64) {
        let has_keys = |one: &Domains| one.column.domain(node.index).is_some();
        if other.namespace() != pod.namespace() || !self.domains.iter().all(has_keys) {
            return;
        }
        for (constraint, domains) in self.constraints.iter().zip(&mut self.domains) {
            if constraint.selector.matches(&other.labels)
                && constraint.includes(pod, node)
                && let Some(domain) = domains.column.domain(node.index)
            {
                domains.added.push((domain, by));
                let least = domains.eligible.iter().map(|one| domains.count(one)).min();
                domains.minimum = minimum_or_none(least);
            }
        }
    }
}

impl Domains {
    /// The matching pods in a domain.
    fn count(&self, domain: DomainId) -> i64 {
        let added = self.added.iter().filter(|(own, _)| *own == domain);
        self.pods.in_domain(domain) + added.map(|(_, by)| by).sum::<i64>()
    }
}

/// The least number of pods; without domains, one that no node exceeds.
fn minimum_or_none(minimum: Option<i64>) -> i64 {
    minimum.unwrap_or(i64::from(i32::MAX))
}
