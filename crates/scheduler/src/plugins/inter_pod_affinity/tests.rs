//! Rows over small clusters: two zones `a` (nodes a1, a2) and `b` (node b1), and a node d1 without a zone.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::fixtures::{node_from, pod_from};
use crate::framework::{CycleState, Filter as _, NodeScore, PreFilter as _, PreScore as _, Score as _};
use crate::state::NodeIndex;

fn cluster(pods: &[(&str, Value)]) -> ClusterState {
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
        cluster.set_node(&node_from(name, json!({"metadata": {"labels": labels}})));
    }
    for (number, (node, pod)) in pods.iter().enumerate() {
        let mut pod = pod.clone();
        pod["metadata"]["name"] = json!(format!("existing-{number}"));
        pod["spec"]["nodeName"] = json!(node);
        cluster.set_pod(Arc::new(pod_from(pod)));
    }
    cluster
}

fn labeled(app: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {}})
}

fn term(app: &str, key: &str) -> Value {
    json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key})
}

fn with_terms(app: &str, field: &str, terms: Value) -> Value {
    let mut pod = labeled(app);
    pod["spec"]["affinity"] = json!({field: {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    pod
}

fn preferring(app: &str, field: &str, weight: i32, term: Value) -> Value {
    let mut pod = labeled(app);
    let preferred = json!([{"weight": weight, "podAffinityTerm": term}]);
    pod["spec"]["affinity"] = json!({field: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    pod
}

/// The nodes on which the pod fits, in order of their names.
#[track_caller]
fn check(pods: &[(&str, Value)], pod: Value, expected: &str) {
    let cluster = cluster(pods);
    let pod = pod_from(pod);
    let plugin = InterPodAffinity::default();
    let mut cycle = CycleState::default();
    plugin.pre_filter(&mut cycle, &pod, &cluster).unwrap();
    let fits = |name: &&&str| {
        let node = cluster.find_node(name).unwrap();
        plugin.filter(&cycle, &pod, node).is_ok()
    };
    let nodes: Vec<&str> = ["a1", "a2", "b1", "d1"].iter().filter(fits).copied().collect();
    assert_eq!(nodes.join(" "), expected);
}

/// The normalized scores of a1, b1 and d1.
#[track_caller]
fn check_scores(pods: &[(&str, Value)], pod: Value, expected: [i64; 3]) {
    let cluster = cluster(pods);
    let pod = pod_from(pod);
    let plugin = InterPodAffinity::default();
    let mut cycle = CycleState::default();
    let nodes: Vec<NodeIndex> = ["a1", "b1", "d1"]
        .map(|name| cluster.find_node(name).unwrap().index)
        .into();
    plugin.pre_score(&mut cycle, &pod, &cluster, &nodes).unwrap();
    let score = |node: &NodeIndex| NodeScore {
        node: *node,
        score: plugin.score(&cycle, &pod, cluster.node(*node)),
    };
    let mut scores: Vec<NodeScore> = nodes.iter().map(score).collect();
    plugin.normalize(&cycle, &pod, &mut scores);
    assert_eq!(scores.iter().map(|one| one.score).collect::<Vec<_>>(), expected);
}

#[test]
fn affinity_needs_a_matching_pod_in_the_domain() {
    let web = [("a1", labeled("web"))];
    check(
        &web,
        with_terms("x", "podAffinity", json!([term("web", "zone")])),
        "a1 a2",
    );
    check(
        &web,
        with_terms("x", "podAffinity", json!([term("db", "zone")])),
        "",
    );
}

#[test]
fn one_pod_has_to_match_all_affinity_terms() {
    let pods = [("a1", labeled("web")), ("a2", labeled("db"))];
    let terms = json!([term("web", "zone"), term("db", "zone")]);
    check(&pods, with_terms("x", "podAffinity", terms), "");
}

#[test]
fn the_first_pod_of_a_group_may_start_where_the_topology_key_is() {
    check(
        &[],
        with_terms("web", "podAffinity", json!([term("web", "zone")])),
        "a1 a2 b1",
    );
}

#[test]
fn anti_affinity_excludes_domains_in_both_directions() {
    let web = [("a1", labeled("web"))];
    check(
        &web,
        with_terms("x", "podAntiAffinity", json!([term("web", "zone")])),
        "b1 d1",
    );
    let shy = [(
        "b1",
        with_terms("shy", "podAntiAffinity", json!([term("x", "zone")])),
    )];
    check(&shy, labeled("x"), "a1 a2 d1");
}

#[test]
fn another_namespace_matters_only_if_the_term_names_it() {
    let mut other = labeled("web");
    other["metadata"]["namespace"] = json!("other");
    let mut named = term("web", "zone");
    named["namespaces"] = json!(["other"]);
    let pods = [("a1", other)];
    check(
        &pods,
        with_terms("x", "podAffinity", json!([term("web", "zone")])),
        "",
    );
    check(&pods, with_terms("x", "podAffinity", json!([named])), "a1 a2");
}

#[test]
fn a_removed_pod_no_longer_excludes_the_node() {
    let cluster = cluster(&[(
        "b1",
        with_terms("shy", "podAntiAffinity", json!([term("x", "zone")])),
    )]);
    let pod = pod_from(labeled("x"));
    let plugin = InterPodAffinity::default();
    let mut cycle = CycleState::default();
    plugin.pre_filter(&mut cycle, &pod, &cluster).unwrap();
    let node = cluster.find_node("b1").unwrap();
    assert!(plugin.filter(&cycle, &pod, node).is_err());
    let existing = node.pods()[0].clone();
    plugin.remove_pod(&mut cycle, &pod, &existing, node);
    assert!(plugin.filter(&cycle, &pod, node).is_ok());
    plugin.add_pod(&mut cycle, &pod, &existing, node);
    assert!(plugin.filter(&cycle, &pod, node).is_err());
}

#[test]
fn preferences_of_the_pod_and_of_existing_pods_add_up() {
    let web = [("a1", labeled("web"))];
    check_scores(
        &web,
        preferring("x", "podAffinity", 10, term("web", "zone")),
        [100, 0, 0],
    );
    check_scores(
        &web,
        preferring("x", "podAntiAffinity", 10, term("web", "zone")),
        [0, 100, 100],
    );
    let fond = [(
        "b1",
        with_terms("fond", "podAffinity", json!([term("x", "zone")])),
    )];
    check_scores(&fond, labeled("x"), [0, 100, 0]);
    check_scores(&[], labeled("x"), [0, 0, 0]);
}

#[test]
fn a_weight_outside_its_range_is_rejected() {
    let args = PluginArgs(json!({"hardPodAffinityWeight": 101}));
    assert!(build(&args, &Handle::default()).is_err());
}

#[test]
fn a_pod_that_no_term_concerns_depends_on_the_node_alone() {
    let shy = [(
        "b1",
        with_terms("shy", "podAntiAffinity", json!([term("x", "zone")])),
    )];
    let cluster = cluster(&shy);
    let dependency = |pod| InterPodAffinity::default().dependency(&pod_from(pod), &cluster);
    assert_eq!(dependency(labeled("y")), Dependency::Node);
    assert_eq!(dependency(labeled("x")), Dependency::Domains);
}
