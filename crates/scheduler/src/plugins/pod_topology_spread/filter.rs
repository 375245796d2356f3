//! PreFilter and Filter: constraints with `DoNotSchedule`.

use std::collections::HashMap;
use std::sync::Arc;

use compact_str::CompactString;

use super::PodTopologySpread;
use super::constraint::{Constraint, has_all_keys};
use crate::framework::{CycleState, Filter, PreFilter, PreFilterResult, Rejection};
use crate::pod_info::PodInfo;
use crate::pod_info::affinity::UnsatisfiableAction;
use crate::state::{ClusterState, NodeRef};

const NOT_SATISFIED: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

/// What Filter needs: the matching pods of each domain, per constraint.
#[derive(Debug, Clone)]
struct FilterState {
    constraints: Arc<[Constraint]>,
    domains: Vec<Domains>,
}

/// The eligible domains of a constraint.
#[derive(Debug, Clone, Default)]
struct Domains {
    pods: HashMap<CompactString, i64>,
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
        let domains = count_domains(&constraints, pod, cluster);
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
            let Some(value) = node.label(&constraint.topology_key) else {
                return Err(Rejection::unresolvable(MISSING_LABEL));
            };
            let minimum = match domains.pods.len() < constraint.min_domains {
                true => 0,
                false => domains.minimum,
            };
            let pods = domains.pods.get(value).copied().unwrap_or(0);
            if pods + domains.own - minimum > constraint.max_skew {
                return Err(Rejection::unschedulable(NOT_SATISFIED));
            }
        }
        Ok(())
    }
}

impl FilterState {
    /// Counts another pod on the node `by` times.
    fn count(&mut self, pod: &PodInfo, other: &PodInfo, node: NodeRef<'_>, by: i64) {
        if other.namespace() != pod.namespace()
            || !has_all_keys(&self.constraints, |key| node.label(key).is_some())
        {
            return;
        }
        for (constraint, domains) in self.constraints.iter().zip(&mut self.domains) {
            if constraint.selector.matches(&other.labels)
                && constraint.includes(pod, node)
                && let Some(value) = node.label(&constraint.topology_key)
            {
                *domains.pods.entry(value.into()).or_default() += by;
                domains.set_minimum();
            }
        }
    }
}

impl Domains {
    fn set_minimum(&mut self) {
        let least = self.pods.values().min().copied();
        self.minimum = least.unwrap_or(i64::from(i32::MAX));
    }
}

/// The domains of the nodes that count, with the matching pods on these nodes.
fn count_domains(constraints: &[Constraint], pod: &PodInfo, cluster: &ClusterState) -> Vec<Domains> {
    let counted: Vec<_> = constraints
        .iter()
        .map(|one| one.matching_pods(pod, cluster))
        .collect();
    let mut domains: Vec<Domains> = constraints
        .iter()
        .map(|one| Domains {
            own: i64::from(one.selector.matches(&pod.labels)),
            ..Domains::default()
        })
        .collect();
    for index in cluster.nodes().live() {
        let node = cluster.node(*index);
        if !has_all_keys(constraints, |key| node.label(key).is_some()) {
            continue;
        }
        for ((constraint, pods), domains) in constraints.iter().zip(&counted).zip(&mut domains) {
            if !constraint.includes(pod, node) {
                continue;
            }
            let value = node.label(&constraint.topology_key).unwrap_or_default();
            match domains.pods.get_mut(value) {
                Some(sum) => *sum += pods.on_node(*index),
                None => drop(domains.pods.insert(value.into(), pods.on_node(*index))),
            }
        }
    }
    domains.iter_mut().for_each(Domains::set_minimum);
    domains
}
