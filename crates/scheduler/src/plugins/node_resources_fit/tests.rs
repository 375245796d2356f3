//! Rows for the reasons why a pod does not fit.

use serde_json::json;

use super::*;
use crate::fixtures::{cluster_of, filter_reasons, pod, with_spec};

fn plugin() -> NodeResourcesFit {
    NodeResourcesFit {
        ignored_resources: BTreeSet::new(),
        ignored_resource_groups: BTreeSet::new(),
        strategy: Strategy::new(ScoringStrategy::default()).unwrap(),
    }
}

/// Amounts as `cpu memory gpu`.
fn resources(words: &str) -> Resources {
    let mut words = words.split_whitespace();
    let mut number = || words.next().map_or(0, |word| word.parse().unwrap());
    let mut resources = Resources {
        milli_cpu: number(),
        memory: number(),
        ..Resources::default()
    };
    resources.set("example.com/gpu", number());
    resources
}

/// The node has room for one more pod.
fn cluster(taken: &str, given: &str, max_pods: i64) -> ClusterState {
    let given = resources(given);
    let allocatable = json!({
        "cpu": format!("{}m", given.milli_cpu),
        "memory": given.memory.to_string(),
        "example.com/gpu": given.amount("example.com/gpu").to_string(),
        "pods": max_pods.to_string(),
    });
    let mut cluster = cluster_of("n", json!({"status": {"allocatable": allocatable}}));
    let other = with_spec(pod("other", "n"), |spec| spec.requests = resources(taken));
    cluster.set_pod(Arc::new(other));
    cluster
}

#[track_caller]
fn check(requested: &str, taken: &str, given: &str, expected: &str) {
    let pod = with_spec(pod("p", ""), |spec| spec.requests = resources(requested));
    assert_eq!(
        filter_reasons(&plugin(), &pod, &cluster(taken, given, 2)),
        expected
    );
}

/// FL5
#[test]
fn a_pod_fits_where_its_requests_are_free() {
    check("100 50", "0 0", "100 50", "");
    check("100 50", "1 0", "100 50", "Insufficient cpu");
    check("100 50", "1 1", "100 50", "Insufficient cpu, Insufficient memory");
}

#[test]
fn a_node_takes_so_many_pods() {
    let reasons = filter_reasons(&plugin(), &pod("p", ""), &cluster("0 0", "100 50", 1));
    assert_eq!(reasons, "Too many pods");
}

#[test]
fn a_pod_without_requests_fits_an_overcommitted_node() {
    check("0 0", "200 80", "100 50", "");
}

#[test]
fn an_extended_resource_counts_as_well() {
    check("0 0 2", "0 0 1", "1 1 2", "Insufficient example.com/gpu");
    check("0 0 1", "0 0 1", "1 1 2", "");
}

#[track_caller]
fn check_code(requested: &str, taken: &str, given: &str, expected: Code) {
    let pod = with_spec(pod("p", ""), |spec| spec.requests = resources(requested));
    let cluster = cluster(taken, given, 2);
    let node = cluster.node(cluster.nodes().live()[0]);
    let rejection = plugin().filter(&CycleState::default(), &pod, node).unwrap_err();
    assert_eq!(rejection.code, expected);
}

#[test]
fn preemption_cannot_help_a_pod_that_is_larger_than_the_node() {
    check_code("100 50", "1 0", "100 50", Code::Unschedulable);
    check_code("101 50", "1 0", "100 50", Code::UnschedulableAndUnresolvable);
}

#[test]
fn ignored_resources_do_not_count() {
    let args = json!({"ignoredResources": ["example.com/gpu"]});
    let plugin = build(&PluginArgs(args), &Handle::default())
        .unwrap()
        .filter
        .unwrap();
    let pod = with_spec(pod("p", ""), |spec| spec.requests = resources("0 0 2"));
    assert_eq!(filter_reasons(&*plugin, &pod, &cluster("0 0 1", "1 1 2", 2)), "");
}
