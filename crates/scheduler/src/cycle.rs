//! The scheduling cycle: the best node for a pod, or why no node fits. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::framework::Profile;
use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// Up to this many nodes, every node is filtered (upstream: `minFeasibleNodesToFind`).
const MIN_FEASIBLE_NODES: usize = 100;

/// Why no node fits, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitError {
    pub message: String,
}

/// The index in the snapshot of the best node for the pod.
///
/// Filtering starts at `start` and ends once enough feasible nodes were found; `start` moves on past the nodes seen, so
/// that over time all nodes are considered and equal nodes share the load.
pub fn find_node(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    start: &mut usize,
) -> Result<usize, FitError> {
    let nodes = snapshot.nodes();
    let nodes_to_find = nodes_to_find(nodes.len());
    let (mut best, mut found, mut seen) = (None, 0, 0);
    while seen < nodes.len() && found < nodes_to_find {
        let index = (*start + seen) % nodes.len();
        seen += 1;
        let Some((node, properties)) = with_properties(&nodes[index]) else {
            continue;
        };
        if profile.first_failing_filter(pod, node, properties).is_some() {
            continue;
        }
        found += 1;
        let score = profile.score(pod, node, properties);
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, index));
        }
    }
    let Some((_, index)) = best else {
        return Err(fit_error(profile, pod, snapshot));
    };
    *start = (*start + seen) % nodes.len();
    Ok(index)
}

/// How many feasible nodes are enough to score: all in a small cluster, then a share that falls from a half to a
/// twentieth.
fn nodes_to_find(nodes: usize) -> usize {
    if nodes <= MIN_FEASIBLE_NODES {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(MIN_FEASIBLE_NODES)
}

fn with_properties(node: &NodeInfo) -> Option<(&NodeInfo, &NodeProperties)> {
    Some((node, node.properties.as_ref()?))
}

/// Collects the reasons of every node and counts them.
fn fit_error(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot) -> FitError {
    if snapshot.is_empty() {
        let message = "no nodes available to schedule pods".to_owned();
        return FitError { message };
    }
    let mut counts: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    for (node, properties) in snapshot.nodes().iter().filter_map(with_properties) {
        let failing = profile.first_failing_filter(pod, node, properties);
        for reason in failing
            .into_iter()
            .flat_map(|filter| filter.reasons(pod, node, properties))
        {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let mut reasons: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    reasons.sort();
    let message = format!(
        "0/{} nodes are available: {}.",
        snapshot.len(),
        reasons.join(", ")
    );
    FitError { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node, pod_requesting};
    use crate::plugins::default_profile;

    /// Nodes as `name=cpu`; with a pod on them as `name=cpu-taken`.
    fn snapshot(nodes: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for words in nodes.split_whitespace() {
            let (name, cpu) = words.split_once('=').unwrap();
            let (cpu, taken) = cpu.split_once('-').unwrap_or((cpu, "0"));
            snapshot.set_node(&node(name, cpu.parse().unwrap()));
            snapshot.set_pod(pod_requesting(
                &format!("on-{name}"),
                name,
                taken.parse().unwrap(),
            ));
        }
        snapshot
    }

    #[track_caller]
    fn check(nodes: &str, milli_cpu: i64, expected: Result<&str, &str>) {
        let snapshot = snapshot(nodes);
        let pod = pod_requesting("p", "", milli_cpu);
        let found = find_node(&default_profile(), &pod, &snapshot, &mut 0);
        let found = found.map(|index| snapshot.nodes()[index].name.to_string());
        let expected = expected.map(str::to_owned).map_err(|message| FitError {
            message: message.to_owned(),
        });
        assert_eq!(found, expected);
    }

    /// FL5
    #[test]
    fn the_pod_goes_where_it_fits_and_most_is_left() {
        check("a=1000", 500, Ok("a"));
        check("a=1000-800 b=1000-400", 500, Ok("b"));
        check("a=1000-100 b=1000", 500, Ok("b"));
    }

    /// FL5
    #[test]
    fn without_a_fitting_node_the_reasons_are_counted() {
        check("", 1, Err("no nodes available to schedule pods"));
        check("a=100", 500, Err("0/1 nodes are available: 1 Insufficient cpu."));
        check(
            "a=100 b=400",
            500,
            Err("0/2 nodes are available: 2 Insufficient cpu."),
        );
    }

    #[test]
    fn equal_nodes_take_turns() {
        let snapshot = snapshot("a=1000 b=1000 c=1000");
        let names: Vec<&str> = (0..3)
            .map(|start| {
                let pod = pod_requesting("p", "", 1);
                let index = find_node(&default_profile(), &pod, &snapshot, &mut { start }).unwrap();
                snapshot.nodes()[index].name.as_str()
            })
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn in_a_large_cluster_a_share_of_the_nodes_is_enough() {
        assert_eq!(nodes_to_find(3), 3);
        assert_eq!(nodes_to_find(100), 100);
        assert_eq!(nodes_to_find(1000), 420);
        assert_eq!(nodes_to_find(5000), 500);
        assert_eq!(nodes_to_find(20_000), 1000);
    }
}
