//! The brute-force model: every rule computed from scratch from all pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_scheduler::pod_info::PodInfo;
use setpoint_scheduler::pod_info::affinity::UnsatisfiableAction;
use setpoint_scheduler::state::{ClusterState, NodeRef, TopologyTerm};

/// All pods with their nodes, as if `others` were the pods on one of the nodes.
struct Pods<'a> {
    cluster: &'a ClusterState,
    node: NodeRef<'a>,
    others: &'a [Arc<PodInfo>],
}

impl<'a> Pods<'a> {
    /// The pods on all nodes with the same value of the topology key as this node.
    fn in_domain_of(&self, node: NodeRef<'a>, key: &str) -> Vec<&'a Arc<PodInfo>> {
        let Some(value) = node.label(key) else {
            return Vec::new();
        };
        let nodes = self
            .cluster
            .nodes()
            .live()
            .iter()
            .map(|index| self.cluster.node(*index));
        let same = nodes.filter(|other| other.label(key) == Some(value));
        same.flat_map(|other| self.on(other)).collect()
    }

    fn on(&self, node: NodeRef<'a>) -> &'a [Arc<PodInfo>] {
        match node.index == self.node.index {
            true => self.others,
            false => node.pods(),
        }
    }
}

/// Whether the pod may run on the node besides `others`.
fn fits(cluster: &ClusterState, pod: &PodInfo, node: NodeRef<'_>, others: &[Arc<PodInfo>]) -> bool {
    let pods = Pods {
        cluster,
        node,
        others,
    };
    fits_node(pod, node, others) && is_apart(pod, &pods) && is_together(pod, &pods) && is_spread(pod, &pods)
}

/// Resources, taints, selectors and ports.
fn fits_node(pod: &PodInfo, node: NodeRef<'_>, others: &[Arc<PodInfo>]) -> bool {
    let properties = node.properties();
    let sum =
        |amount: fn(&PodInfo) -> i64| others.iter().map(|other| amount(other)).sum::<i64>() + amount(pod);
    let mut ports = others.iter().flat_map(|other| &other.spec.host_ports);
    let mut taints = properties
        .taints
        .iter()
        .filter(|taint| taint.effect == "NoSchedule");
    let mut selected = pod.spec.node_selector.iter();
    sum(|pod| pod.spec.requests.milli_cpu) <= properties.allocatable.milli_cpu
        && sum(|pod| pod.spec.requests.memory) <= properties.allocatable.memory
        && i64::try_from(others.len()).unwrap() < properties.max_pods
        && taints.all(|taint| pod.spec.tolerations.iter().any(|own| own.key == taint.key))
        && selected.all(|(name, value)| properties.labels.get(name) == Some(value))
        && ports.all(|used| !pod.spec.host_ports.iter().any(|own| own.port == used.port))
}

/// Required anti-affinity, of the pod and of the others.
fn is_apart(pod: &PodInfo, pods: &Pods<'_>) -> bool {
    let selects = |term: &TopologyTerm, other: &PodInfo| term.matches(other, pods.cluster.namespaces());
    let mut own = pod.spec.affinity.required_anti.iter();
    let own_holds = own.all(|term| {
        let domain = pods.in_domain_of(pods.node, &term.topology_key);
        domain.iter().all(|other| !selects(term, other))
    });
    let mut nodes = pods.cluster.nodes().live().iter();
    own_holds
        && nodes.all(|index| {
            let node = pods.cluster.node(*index);
            let mut terms = pods
                .on(node)
                .iter()
                .flat_map(|other| &other.spec.affinity.required_anti);
            terms.all(|term| {
                let is_same = node.label(&term.topology_key) == pods.node.label(&term.topology_key);
                !is_same || !selects(term, pod)
            })
        })
}

/// Required affinity to pods of the same group, of which the first may be alone.
fn is_together(pod: &PodInfo, pods: &Pods<'_>) -> bool {
    let selects = |term: &TopologyTerm, other: &PodInfo| term.matches(other, pods.cluster.namespaces());
    let mut terms = pod.spec.affinity.required.iter();
    terms.all(|term| {
        let mut domain = pods.in_domain_of(pods.node, &term.topology_key).into_iter();
        let nodes = pods.cluster.nodes().live().iter();
        let mut all = nodes.flat_map(|index| pods.on(pods.cluster.node(*index)));
        domain.any(|other| selects(term, other))
            || (selects(term, pod) && !all.any(|other| selects(term, other)))
    })
}

/// Spread constraints with `DoNotSchedule`, over zones whose nodes all count.
fn is_spread(pod: &PodInfo, pods: &Pods<'_>) -> bool {
    let constraints = &pod.spec.topology_spread_constraints;
    let mut strict = constraints
        .iter()
        .filter(|one| one.when_unsatisfiable == UnsatisfiableAction::DoNotSchedule);
    strict.all(|constraint| {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for index in pods.cluster.nodes().live() {
            let node = pods.cluster.node(*index);
            let selected = pods
                .on(node)
                .iter()
                .filter(|other| constraint.selector.matches(&other.labels));
            *counts
                .entry(node.label(&constraint.topology_key).unwrap())
                .or_default() += i64::try_from(selected.count()).unwrap();
        }
        let own = pods.node.label(&constraint.topology_key).unwrap();
        let least = counts.values().min().copied().unwrap_or(0);
        counts[own] + 1 - least <= i64::from(constraint.max_skew)
    })
}

/// Every pod on every node is allowed there besides the others. What depends on the order of events, affinity and spread,
/// is checked by [`check_placements`].
#[track_caller]
pub(super) fn check_valid(cluster: &ClusterState) {
    let mut pods = 0;
    for index in cluster.nodes().live() {
        let node = cluster.node(*index);
        for pod in node.pods() {
            let others: Vec<_> = node
                .pods()
                .iter()
                .filter(|other| other.key != pod.key)
                .cloned()
                .collect();
            let rest = Pods {
                cluster,
                node,
                others: &others,
            };
            assert!(
                fits_node(pod, node, &others) && is_apart(pod, &rest),
                "{} violates a constraint on {}",
                pod.key,
                node.name()
            );
            pods += 1;
        }
    }
    assert_eq!(pods, cluster.pod_count(), "each pod is on exactly one node");
}

/// If no pod was deleted, the pods that want to be together are in one zone, and no zone has more pods of a spread group
/// than the skew allows.
#[track_caller]
pub(super) fn check_placements(cluster: &ClusterState) {
    let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    let mut zones: Vec<&str> = Vec::new();
    for index in cluster.nodes().live() {
        let node = cluster.node(*index);
        let zone = node.label("zone").unwrap();
        zones.push(zone);
        for pod in node.pods() {
            *counts.entry((pod.label("app").unwrap(), zone)).or_default() += 1;
        }
    }
    let of = |app: &str| {
        zones
            .iter()
            .map(|zone| counts.get(&(app, *zone)).copied().unwrap_or(0))
            .collect::<Vec<i64>>()
    };
    let together = of("together");
    let used: std::collections::BTreeSet<_> = zones
        .iter()
        .zip(&together)
        .filter(|(_, count)| **count > 0)
        .collect();
    assert!(used.len() <= 1, "pods that belong together are in {used:?}");
    for (app, skew) in [("even", 1), ("level", 2)] {
        let pods = of(app);
        let difference = pods.iter().max().unwrap() - pods.iter().min().unwrap();
        assert!(difference <= skew, "{app} has {pods:?} pods by zone");
        assert!(pods.iter().sum::<i64>() > 0, "there are pods of {app}");
    }
}

/// Whether the pod fits on a node; with `preempts`, on one without its pods of lower priority. Pods that are nominated to
/// the node may come or not.
pub(super) fn fits_somewhere(cluster: &ClusterState, pod: &PodInfo, preempts: bool) -> bool {
    let mut nodes = cluster.nodes().live().iter().map(|index| cluster.node(*index));
    nodes.any(|node| {
        let stays = |other: &&Arc<PodInfo>| !preempts || other.priority() >= pod.priority();
        let others: Vec<_> = node.pods().iter().filter(stays).cloned().collect();
        let nominated = cluster.nominated().on_node(node.name()).iter();
        let nominated = nominated.filter(|other| other.priority() >= pod.priority() && other.uid != pod.uid);
        let with_nominated: Vec<_> = others.iter().chain(nominated).cloned().collect();
        fits(cluster, pod, node, &others) && fits(cluster, pod, node, &with_nominated)
    })
}
