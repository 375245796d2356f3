//! Rows over two zones `a` (nodes a1, a2) and `b` (node b1), and a node d1 without a zone.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{node_from, pod_from};
use crate::framework::{CycleState, Filter as _, PreFilter as _};

/// A cluster with a pod `app=web` on each of these nodes.
fn cluster(pods: &[&str]) -> ClusterState {
    let mut cluster = ClusterState::default();
    for (name, zone) in [
        ("a1", Some("a")),
        ("a2", Some("a")),
        ("b1", Some("b")),
        ("d1", None),
    ] {
        let mut labels = json!({"kubernetes.io/hostname": name});
        if let Some(zone) = zone {
            labels["zone"] = json!(zone);
        }
        let taints = match name {
            "b1" => json!([{"key": "t", "effect": "NoSchedule"}]),
            _ => json!([]),
        };
        let object = json!({"metadata": {"labels": labels}, "spec": {"taints": taints}});
        cluster.set_node(&node_from(name, object));
    }
    for (number, node) in pods.iter().enumerate() {
        let mut pod = web(json!([]));
        pod["metadata"]["name"] = json!(format!("web-{number}"));
        pod["spec"]["nodeName"] = json!(node);
        cluster.set_pod(Arc::new(pod_from(pod)));
    }
    cluster
}

fn web(constraints: Value) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"topologySpreadConstraints": constraints}})
}

fn constraint(more: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        constraint[field] = value.clone();
    }
    constraint
}

fn plugin() -> PodTopologySpread {
    PodTopologySpread {
        defaults: constraint::system_defaults(),
        is_system_defaulted: true,
        workloads: Workloads::default(),
        eligibility: EligibilityCache::default(),
    }
}

/// The nodes on which the pod fits, in order of their names.
#[track_caller]
fn check(pods: &[&str], more: Value, expected: &str) {
    let (cluster, plugin) = (cluster(pods), plugin());
    let pod = pod_from(web(json!([constraint(more)])));
    let mut cycle = CycleState::default();
    plugin.pre_filter(&mut cycle, &pod, &cluster).unwrap();
    let fits = |name: &&&str| {
        let node = cluster.find_node(name).unwrap();
        plugin.filter(&cycle, &pod, node).is_ok()
    };
    let nodes: Vec<&str> = ["a1", "a2", "b1", "d1"].iter().filter(fits).copied().collect();
    assert_eq!(nodes.join(" "), expected);
}

#[test]
fn the_skew_is_limited_and_the_key_is_required() {
    check(&[], json!({}), "a1 a2 b1");
    check(&["a1"], json!({}), "b1");
    check(&["a1"], json!({"maxSkew": 2}), "a1 a2 b1");
    check(
        &["a1", "a1", "b1"],
        json!({"topologyKey": "kubernetes.io/hostname"}),
        "a2 d1",
    );
}

#[test]
fn with_too_few_domains_the_minimum_is_zero() {
    check(&["a1", "b1"], json!({}), "a1 a2 b1");
    check(&["a1", "b1"], json!({"minDomains": 3}), "");
}

#[test]
fn tainted_nodes_count_unless_the_policy_honors_taints() {
    check(&["a1"], json!({}), "b1");
    check(&["a1"], json!({"nodeTaintsPolicy": "Honor"}), "a1 a2 b1");
}

#[test]
fn match_label_keys_narrow_the_selector() {
    check(&["a1"], json!({"matchLabelKeys": ["app"]}), "b1");
    check(&["a1"], json!({"matchLabelKeys": ["version"]}), "b1");
}

#[test]
fn an_empty_selector_counts_no_pods() {
    check(&["a1", "a1"], json!({"labelSelector": {}}), "a1 a2 b1");
}

#[test]
fn a_removed_pod_no_longer_counts() {
    let (cluster, plugin) = (cluster(&["a1"]), plugin());
    let pod = pod_from(web(json!([constraint(json!({}))])));
    let mut cycle = CycleState::default();
    plugin.pre_filter(&mut cycle, &pod, &cluster).unwrap();
    let node = cluster.find_node("a1").unwrap();
    assert!(plugin.filter(&cycle, &pod, node).is_err());
    plugin.remove_pod(&mut cycle, &pod, &node.pods()[0].clone(), node);
    assert!(plugin.filter(&cycle, &pod, node).is_ok());
}

#[test]
fn default_constraints_contradict_system_defaulting() {
    let args = PluginArgs(json!({"defaultConstraints": [constraint(json!({}))]}));
    assert!(build(&args, &Handle::default()).is_err());
    let args = PluginArgs(json!({"defaultConstraints": [constraint(json!({}))], "defaultingType": "List"}));
    assert!(build(&args, &Handle::default()).is_ok());
}
