//! [`Eligibility`]: the nodes and domains that count for a pod, by its constraints with one action.
//!
//! They depend on the pod's spec and on the Node objects, but not on other pods: pods with one spec share them until a Node
//! object changes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::PodTopologySpread;
use super::constraint::Constraint;
use crate::pod_info::affinity::UnsatisfiableAction;
use crate::pod_info::{PodInfo, PodSpec};
use crate::state::{ClusterState, DomainId, NodeIndex, TopologyColumn, TopologyCounts};

/// The limit of cached specs; all are dropped at once.
const MAX_SPECS: usize = 512;

/// The eligible domains of each constraint of a spec, shared by all workers.
#[derive(Debug, Default)]
pub(super) struct EligibilityCache {
    /// By the address of the spec, which the entry keeps alive, and by the action.
    entries: Mutex<HashMap<(usize, UnsatisfiableAction), Arc<Eligibility>>>,
}

/// What counts for the pods of one spec.
#[derive(Debug)]
pub(super) struct Eligibility {
    #[allow(dead_code, reason = "keeps the address of the key in use")]
    spec: Arc<PodSpec>,
    /// The number of the last change of a Node object that was seen.
    nodes_sequence: u64,
    /// When each column was built whose domains the numbers refer to.
    built_at: Vec<u64>,
    /// By constraint.
    pub(super) domains: Vec<Arc<EligibleDomains>>,
}

/// The domains that count for one constraint.
#[derive(Debug, Default)]
pub(super) struct EligibleDomains {
    /// Whether each domain has a node that counts.
    domains: Vec<bool>,
    /// The number of such domains.
    pub(super) len: usize,
    /// Whether each node counts, by row; `None` if all nodes of the counted domains do, and there are no other domains.
    rows: Option<Vec<bool>>,
}

/// The pods that a constraint selects on the nodes that count, by domain.
#[derive(Debug, Clone)]
pub(super) enum DomainPods {
    /// All nodes count.
    All(Arc<TopologyCounts>),
    /// The sums over the nodes that count.
    Eligible(HashMap<DomainId, i64>),
}

impl PodTopologySpread {
    /// The nodes and domains that count for the constraints of the pod with this action.
    pub(super) fn eligibility(
        &self,
        pod: &PodInfo,
        action: UnsatisfiableAction,
        constraints: &[Constraint],
        (cluster, columns): (&ClusterState, &[Arc<TopologyColumn>]),
    ) -> Arc<Eligibility> {
        let key = (Arc::as_ptr(&pod.spec).addr(), action);
        let built_at = || columns.iter().map(|column| column.built_at());
        let known = self.eligibility.entries.lock().get(&key).cloned();
        if let Some(known) = known
            && known.nodes_sequence == cluster.nodes_sequence()
            && built_at().eq(known.built_at.iter().copied())
        {
            return known;
        }
        let eligibility = Arc::new(Eligibility {
            spec: pod.spec.clone(),
            nodes_sequence: cluster.nodes_sequence(),
            built_at: built_at().collect(),
            domains: find_eligible(
                pod,
                constraints,
                cluster,
                (columns, self.needs_all_keys(pod, action)),
            ),
        });
        let mut entries = self.eligibility.entries.lock();
        if entries.len() >= MAX_SPECS {
            entries.clear();
        }
        entries.insert(key, eligibility.clone());
        eligibility
    }

    /// Whether only nodes with the topology keys of all constraints count. Built-in defaults score all nodes.
    pub(super) fn needs_all_keys(&self, pod: &PodInfo, action: UnsatisfiableAction) -> bool {
        action == UnsatisfiableAction::DoNotSchedule
            || !pod.spec.topology_spread_constraints.is_empty()
            || !self.is_system_defaulted
    }
}

fn find_eligible(
    pod: &PodInfo,
    constraints: &[Constraint],
    cluster: &ClusterState,
    (columns, needs_all_keys): (&[Arc<TopologyColumn>], bool),
) -> Vec<Arc<EligibleDomains>> {
    let has_keys =
        |node: NodeIndex| !needs_all_keys || columns.iter().all(|column| column.domain(node).is_some());
    let with_keys: Vec<NodeIndex> = cluster
        .nodes()
        .live()
        .iter()
        .copied()
        .filter(|node| has_keys(*node))
        .collect();
    let all = constraints.iter().zip(columns);
    let domains = all.map(|(constraint, column)| {
        let included = with_keys
            .iter()
            .filter(|node| constraint.includes(pod, cluster.node(**node)));
        let rows = cluster.nodes().rows();
        Arc::new(EligibleDomains::new(column, rows, included.copied()))
    });
    domains.collect()
}

impl EligibleDomains {
    fn new(column: &TopologyColumn, rows: usize, nodes: impl Iterator<Item = NodeIndex>) -> Self {
        let (mut counted, mut included) = (vec![0_u32; column.bound()], vec![false; rows]);
        for node in nodes {
            if let Some(domain) = column.domain(node) {
                counted[domain.index()] += 1;
                included[node.row()] = true;
            }
        }
        let is_complete = column
            .domains()
            .all(|domain| counted[domain.index()] == column.nodes_in(domain));
        let domains: Vec<bool> = counted.iter().map(|nodes| *nodes > 0).collect();
        Self {
            len: domains.iter().filter(|counts| **counts).count(),
            domains,
            rows: (!is_complete).then_some(included),
        }
    }

    /// The domains that count.
    pub(super) fn iter(&self) -> impl Iterator<Item = DomainId> {
        let numbers = self.domains.iter().enumerate();
        numbers
            .filter(|(_, counts)| **counts)
            .map(|(index, _)| DomainId::new(index))
    }

    /// The pods on the nodes that count.
    pub(super) fn pods(&self, counts: Arc<TopologyCounts>, column: &TopologyColumn) -> DomainPods {
        let Some(rows) = &self.rows else {
            return DomainPods::All(counts);
        };
        let mut sums = HashMap::new();
        for (node, pods) in counts.nodes() {
            if rows.get(node.row()) == Some(&true)
                && let Some(domain) = column.domain(node)
            {
                *sums.entry(domain).or_default() += pods;
            }
        }
        DomainPods::Eligible(sums)
    }
}

impl DomainPods {
    /// The pods in the domain.
    pub(super) fn in_domain(&self, domain: DomainId) -> i64 {
        match self {
            Self::All(counts) => counts.in_domain(domain),
            Self::Eligible(sums) => sums.get(&domain).copied().unwrap_or(0),
        }
    }

    /// The least number of pods in one of the domains that count, of which there are `domains`; `None` if there are none.
    pub(super) fn minimum(&self, domains: usize) -> Option<i64> {
        let (with_pods, least) = match self {
            Self::All(counts) => (
                counts.domains().len(),
                counts.domains().map(|(_, pods)| pods).min(),
            ),
            Self::Eligible(sums) => (sums.len(), sums.values().min().copied()),
        };
        match domains {
            0 => None,
            _ if with_pods < domains => Some(0),
            _ => least,
        }
    }
}
