//! Rows for the reasons why a pod does not fit.

use serde_json::json;

use super::*;
use crate::fixtures::{cluster_of, filter_reasons, pod, pod_from, with_spec};
use crate::plugins::device_classes::tests::{class, classes};

fn plugin() -> NodeResourcesFit {
    NodeResourcesFit {
        ignored_resources: BTreeSet::new(),
        ignored_resource_groups: BTreeSet::new(),
        strategy: Strategy::new(ScoringStrategy::default()).unwrap(),
        classes: DeviceClasses::default(),
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

#[test]
fn a_resource_that_a_class_backs_is_left_to_the_allocation_of_devices() {
    let plugin = NodeResourcesFit {
        classes: classes(&[("gpu", 1, Some("example.com/gpu"))]),
        ..plugin()
    };
    let request = json!({"requests": {"example.com/gpu": "2"}});
    let spec = json!({"containers": [{"name": "c", "resources": request}]});
    let pod = pod_from(json!({"metadata": {"name": "p"}, "spec": spec}));
    let reasons = |gpus: &str| filter_reasons(&plugin, &pod, &cluster("", &format!("4 4 {gpus}"), 9));
    assert_eq!(reasons("0"), "");
    assert_eq!(reasons("1"), "Insufficient example.com/gpu");
    assert_eq!(reasons("2"), "");
    let empty = cluster("", "", 9);
    assert_eq!(plugin.dependency(&pod, &empty), Dependency::Cluster);
    let without = self::plugin();
    assert_eq!(without.dependency(&pod, &empty), Dependency::Node);
    assert_eq!(
        filter_reasons(&without, &pod, &empty),
        "Insufficient example.com/gpu"
    );
}

#[test]
fn a_class_wakes_pods_that_request_the_resource_that_it_backs() {
    let request =
        json!({"requests": {"example.com/gpu": "1", "deviceclass.resource.kubernetes.io/nic": "1"}});
    let spec = json!({"containers": [{"name": "c", "resources": request}]});
    let pod = pod_from(json!({"metadata": {"name": "p"}, "spec": spec}));
    let check = |old: Option<Arc<Stored>>, new: Arc<Stored>, expected: bool| {
        assert_eq!(backs_more(&pod, old.as_deref(), Some(&new)), expected);
    };
    let gpu = || class("gpu", 1, Some("example.com/gpu"));
    check(None, gpu(), true);
    check(None, class("nic", 1, None), true);
    check(None, class("other", 1, None), false);
    check(Some(class("gpu", 1, None)), gpu(), true);
    check(Some(gpu()), gpu(), false);
    check(Some(gpu()), class("gpu", 1, None), false);
}
