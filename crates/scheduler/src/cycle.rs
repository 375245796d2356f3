//! One decision: the best node for a pod, or why there is none. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::framework::Profile;
use crate::node_info::{NodeInfo, Offer};
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// In a cluster of up to so many nodes all are looked at.
const SMALL_CLUSTER: usize = 100;

/// Why no node would do, as Kubernetes words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    pub message: String,
}

/// The place in the snapshot of the best node for the pod.
///
/// The walk starts at `start` and ends once enough nodes were found that would do; `start` moves on past the nodes
/// seen, so that over time all nodes have their turn and equals share the load.
pub fn choose(
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    start: &mut usize,
) -> Result<usize, Unfit> {
    let nodes = snapshot.nodes();
    let enough = enough(nodes.len());
    let (mut best, mut found, mut seen) = (None, 0, 0);
    while seen < nodes.len() && found < enough {
        let place = (*start + seen) % nodes.len();
        seen += 1;
        let Some((node, offer)) = offering(&nodes[place]) else {
            continue;
        };
        if profile.find_refusal(pod, node, offer).is_some() {
            continue;
        }
        found += 1;
        let score = profile.score(pod, node, offer);
        if best.is_none_or(|(most, _)| score > most) {
            best = Some((score, place));
        }
    }
    let Some((_, place)) = best else {
        return Err(unfit(profile, pod, snapshot));
    };
    *start = (*start + seen) % nodes.len();
    Ok(place)
}

/// How many nodes that would do are enough to choose from: all in a small cluster, then a share that falls from a
/// half to a twentieth.
fn enough(nodes: usize) -> usize {
    if nodes <= SMALL_CLUSTER {
        return nodes;
    }
    let percent = 50_usize.saturating_sub(nodes / 125).max(5);
    (nodes * percent / 100).max(SMALL_CLUSTER)
}

fn offering(node: &NodeInfo) -> Option<(&NodeInfo, &Offer)> {
    Some((node, node.offer.as_ref()?))
}

/// Asks every node for its reasons and counts them.
fn unfit(profile: &Profile, pod: &PodInfo, snapshot: &Snapshot) -> Unfit {
    if snapshot.is_empty() {
        let message = "no nodes available to schedule pods".to_owned();
        return Unfit { message };
    }
    let mut counts: BTreeMap<Cow<'static, str>, usize> = BTreeMap::new();
    for (node, offer) in snapshot.nodes().iter().filter_map(offering) {
        let refusal = profile.find_refusal(pod, node, offer);
        for reason in refusal
            .into_iter()
            .flat_map(|filter| filter.reasons(pod, node, offer))
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
    Unfit { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{node, pod_asking};
    use crate::plugins::default_profile;

    /// Nodes as `name=cpu`; with a pod on them as `name=cpu-taken`.
    fn snapshot(nodes: &str) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for words in nodes.split_whitespace() {
            let (name, cpu) = words.split_once('=').unwrap();
            let (cpu, taken) = cpu.split_once('-').unwrap_or((cpu, "0"));
            snapshot.set_node(&node(name, cpu.parse().unwrap()));
            snapshot.set_pod(pod_asking(&format!("on-{name}"), name, taken.parse().unwrap()));
        }
        snapshot
    }

    #[track_caller]
    fn check(nodes: &str, milli_cpu: i64, expected: Result<&str, &str>) {
        let snapshot = snapshot(nodes);
        let pod = pod_asking("p", "", milli_cpu);
        let found = choose(&default_profile(), &pod, &snapshot, &mut 0);
        let found = found.map(|place| snapshot.nodes()[place].name.to_string());
        let expected = expected.map(str::to_owned).map_err(|message| Unfit {
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
                let pod = pod_asking("p", "", 1);
                let place = choose(&default_profile(), &pod, &snapshot, &mut { start }).unwrap();
                snapshot.nodes()[place].name.as_str()
            })
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn in_a_large_cluster_a_share_of_the_nodes_is_enough() {
        assert_eq!(enough(3), 3);
        assert_eq!(enough(100), 100);
        assert_eq!(enough(1000), 420);
        assert_eq!(enough(5000), 500);
        assert_eq!(enough(20_000), 1000);
    }
}
