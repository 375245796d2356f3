//! A pod fits where its requests and those of the pods on the node stay within the allocatable resources; the score is
//! higher where more is left (LeastAllocated).

use std::borrow::Cow;

use crate::framework::{Filter, MAX_SCORE, Score};
use crate::node_info::{NodeInfo, NodeProperties};
use crate::pod_info::PodInfo;

#[derive(Debug)]
pub(super) struct NodeResourcesFit;

impl Filter for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn fits(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> bool {
        let (requested, taken, given) = (&pod.requests, &node.requested, &properties.allocatable);
        node.pods < properties.max_pods
            && (requested.milli_cpu == 0 || requested.milli_cpu <= given.milli_cpu - taken.milli_cpu)
            && (requested.memory == 0 || requested.memory <= given.memory - taken.memory)
            && (requested.ephemeral_storage == 0
                || requested.ephemeral_storage <= given.ephemeral_storage - taken.ephemeral_storage)
            && requested
                .scalar_resources
                .iter()
                .all(|(name, _)| has_free(name, pod, node, properties))
    }

    fn reasons(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> Vec<Cow<'static, str>> {
        let mut reasons = Vec::new();
        if node.pods >= properties.max_pods {
            reasons.push("Too many pods".into());
        }
        let short = pod
            .requests
            .names()
            .filter(|name| !has_free(name, pod, node, properties));
        reasons.extend(short.map(|name| format!("Insufficient {name}").into()));
        reasons
    }
}

impl Score for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn score(&self, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> i64 {
        let cpu = left(
            node.non_zero_requests.milli_cpu + pod.non_zero_requests.milli_cpu,
            properties.allocatable.milli_cpu,
        );
        let memory = left(
            node.non_zero_requests.memory + pod.non_zero_requests.memory,
            properties.allocatable.memory,
        );
        (cpu + memory) / 2
    }
}

fn has_free(name: &str, pod: &PodInfo, node: &NodeInfo, properties: &NodeProperties) -> bool {
    let free = properties.allocatable.amount(name) - node.requested.amount(name);
    pod.requests.amount(name) <= free
}

/// How much of the whole is left, from 0 to the best score.
fn left(used: i64, whole: i64) -> i64 {
    if used > whole || whole == 0 {
        return 0;
    }
    i64::try_from(i128::from(whole - used) * i128::from(MAX_SCORE) / i128::from(whole)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Resources;

    /// Amounts as `cpu memory pods`, with a fourth word for a resource of another name.
    fn resources(words: &str) -> (Resources, i64) {
        let mut words = words.split_whitespace();
        let mut number = || words.next().map_or(0, |word| word.parse().unwrap());
        let (milli_cpu, memory, pods, other) = (number(), number(), number(), number());
        let mut resources = Resources {
            milli_cpu,
            memory,
            ..Resources::default()
        };
        resources.set("example.com/gpu", other);
        (resources, pods)
    }

    #[track_caller]
    fn check(requested: &str, taken: &str, given: &str, expected: &str) {
        let mut pod = crate::fixtures::pod("p", "");
        pod.requests = resources(requested).0;
        let mut node = NodeInfo::new("n");
        (node.requested, node.pods) = resources(taken);
        let (allocatable, max_pods) = resources(given);
        let properties = NodeProperties {
            allocatable,
            max_pods,
            ..NodeProperties::default()
        };
        let reasons = NodeResourcesFit.reasons(&pod, &node, &properties);
        assert_eq!(reasons.join(", "), expected);
        assert_eq!(
            NodeResourcesFit.fits(&pod, &node, &properties),
            expected.is_empty()
        );
    }

    /// FL5
    #[test]
    fn a_pod_fits_where_its_requests_are_free() {
        check("100 50", "0 0 0", "100 50 1", "");
        check("100 50", "1 0 0", "100 50 1", "Insufficient cpu");
        check(
            "100 50",
            "1 1 0",
            "100 50 1",
            "Insufficient cpu, Insufficient memory",
        );
    }

    #[test]
    fn a_node_takes_so_many_pods() {
        check("0 0", "0 0 110", "100 50 110", "Too many pods");
    }

    #[test]
    fn a_pod_without_requests_fits_an_overcommitted_node() {
        check("0 0", "200 80 1", "100 50 110", "");
    }

    #[test]
    fn a_resource_of_another_name_counts_as_well() {
        check("0 0 0 2", "0 0 0 1", "1 1 9 2", "Insufficient example.com/gpu");
        check("0 0 0 1", "0 0 0 1", "1 1 9 2", "");
    }

    #[test]
    fn the_emptier_node_scores_higher() {
        assert_eq!(left(25, 100), 75);
        assert_eq!(left(100, 100), 0);
        assert_eq!(left(101, 100), 0);
        assert_eq!(left(0, i64::MAX), MAX_SCORE);
    }
}
