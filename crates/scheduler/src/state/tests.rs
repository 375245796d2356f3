//! Rows for the sums of nodes and for topology counters.

use serde_json::json;

use super::*;
use crate::fixtures::{node, node_from, pod_from, pod_requesting};
use crate::pod_info::SchedulingState;
use crate::pod_info::selector::PodSelector;

/// The requests on each node, as `name:cpu/pods`, by name.
#[track_caller]
fn check(cluster: &ClusterState, expected: &str) {
    let rows = cluster.nodes.names().filter(|(name, _)| !name.is_empty());
    let mut shown: Vec<String> = rows
        .map(|(name, index)| {
            let node = cluster.node(index);
            format!("{name}:{}/{}", node.requested("cpu"), node.pods().len())
        })
        .collect();
    shown.sort();
    assert_eq!(shown.join(" "), expected);
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn set_pod(cluster: &mut ClusterState, name: &str, node: &str, milli_cpu: i64) {
    cluster.set_pod(Arc::new(pod_requesting(name, node, milli_cpu)));
}

#[test]
fn pods_add_up_on_their_node_and_move_with_their_updates() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node("a", 1000));
    set_pod(&mut cluster, "p", "a", 100);
    set_pod(&mut cluster, "q", "a", 10);
    check(&cluster, "a:110/2");
    set_pod(&mut cluster, "p", "a", 200);
    check(&cluster, "a:210/2");
    cluster.remove_pod(&key("p"));
    check(&cluster, "a:10/1");
}

#[test]
fn a_pod_seen_before_its_node_is_not_lost() {
    let mut cluster = ClusterState::default();
    set_pod(&mut cluster, "p", "a", 100);
    assert_eq!(cluster.len(), 0);
    cluster.set_node(&node("a", 1000));
    assert_eq!(cluster.len(), 1);
    check(&cluster, "a:100/1");
}

/// OC10
#[test]
fn an_assumed_pod_whose_binding_is_not_listed_yet_still_uses_its_node() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node("a", 1000));
    set_pod(&mut cluster, "bound", "a", 10);
    for (name, milli_cpu) in [("pending", 100), ("deleted", 200)] {
        cluster.assume(Arc::new(pod_requesting(name, "a", milli_cpu)));
    }
    let mut listed = cluster.replacement(|pod| pod.key.name() == "pending");
    listed.set_node(&node("a", 1000));
    check(&listed, "a:100/1");
    assert!(listed.is_assumed(&key("pending"), "pending"));
    assert!(listed.sequence() > cluster.sequence());
}

#[test]
fn a_node_is_forgotten_with_its_last_pod() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node("a", 1000));
    cluster.set_node(&node("b", 1000));
    set_pod(&mut cluster, "p", "a", 100);
    cluster.remove_node("a");
    check(&cluster, "a:100/1 b:0/0");
    cluster.remove_pod(&key("p"));
    check(&cluster, "b:0/0");
    set_pod(&mut cluster, "q", "b", 1);
    check(&cluster, "b:1/1");
}

#[test]
fn a_finished_pod_takes_nothing() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node("a", 1000));
    set_pod(&mut cluster, "p", "a", 100);
    let mut finished = pod_requesting("p", "a", 100);
    finished.state = SchedulingState::Finished;
    assert!(cluster.set_pod(Arc::new(finished)).is_some());
    check(&cluster, "a:0/0");
}

#[test]
fn a_change_gives_the_node_a_new_sequence_and_an_equal_object_does_not() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node("a", 1000));
    let index = cluster.find_node("a").unwrap().index;
    let mut last = cluster.nodes().sequence(index);
    let mut check_changed = |cluster: &ClusterState, changed: bool| {
        let now = cluster.nodes().sequence(index);
        assert_eq!(now != last, changed);
        last = now;
    };
    assert!(cluster.set_node(&node("a", 1000)).is_none());
    check_changed(&cluster, false);
    assert!(cluster.set_node(&node("a", 2000)).is_some());
    check_changed(&cluster, true);
    set_pod(&mut cluster, "p", "a", 100);
    check_changed(&cluster, true);
    set_pod(&mut cluster, "p", "a", 100);
    check_changed(&cluster, false);
    cluster.remove_pod(&key("p"));
    check_changed(&cluster, true);
}

#[test]
fn the_bound_pod_confirms_the_assumption() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node("a", 1000));
    cluster.assume(Arc::new(pod_requesting("p", "a", 100)));
    assert!(cluster.is_assumed(&key("p"), "p"));
    set_pod(&mut cluster, "p", "a", 100);
    assert!(!cluster.is_assumed(&key("p"), "p") && cluster.contains(&key("p"), "p"));
    check(&cluster, "a:100/1");
}

// Topology counters.

fn zone(name: &str, zone: &str) -> Arc<Stored> {
    node_from(name, json!({"metadata": {"labels": {"zone": zone}}}))
}

fn web(name: &str, node: &str) -> Arc<PodInfo> {
    Arc::new(pod_from(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}},
    })))
}

fn term() -> TopologyTerm {
    let equals = setpoint_api::selector::LabelSelector::equals("app", "web");
    TopologyTerm {
        topology_key: "zone".into(),
        namespaces: NamespaceSet::new(vec!["default".into()], None),
        selector: PodSelector::new(equals.requirements),
        counts_terminating: true,
    }
}

/// The counts of web pods by zone, and of pods with the anti-affinity term by zone, as `zone=count`.
#[track_caller]
fn check_zones(cluster: &ClusterState, expected: &str) {
    let column = cluster.topology("zone");
    let print = |counts: &TopologyCounts| {
        let zones = ["x", "y", "z"].into_iter();
        let counted = zones.filter_map(|zone| Some((zone, counts.in_domain(column.find(zone)?))));
        let mut values: Vec<String> = counted
            .filter(|(_, count)| *count != 0)
            .map(|(value, count)| format!("{value}={count}"))
            .collect();
        assert_eq!(values.len(), counts.domains().len());
        values.sort();
        values.join(" ")
    };
    assert_eq!(print(&cluster.matching_pods(&term())), expected);
    let pod = web("incoming", "");
    let existing = cluster.existing_terms().matching(&pod, cluster.namespaces());
    let existing: Vec<String> = existing.map(|(_, counts)| print(counts)).collect();
    assert_eq!(existing.join(";"), expected);
}

#[test]
fn counters_follow_pods_and_the_labels_of_nodes() {
    let mut cluster = ClusterState::default();
    cluster.set_node(&zone("a", "x"));
    cluster.set_node(&zone("b", "y"));
    cluster.set_pod(web("p", "a"));
    check_zones(&cluster, "x=1");
    cluster.set_pod(web("q", "b"));
    cluster.set_pod(web("r", "b"));
    cluster.set_pod(Arc::new(pod_requesting("other", "a", 1)));
    check_zones(&cluster, "x=1 y=2");
    cluster.set_node(&zone("b", "x"));
    check_zones(&cluster, "x=3");
    cluster.remove_pod(&key("p"));
    check_zones(&cluster, "x=2");
    cluster.remove_node("b");
    assert!(cluster.matching_pods(&term()).is_empty());
    cluster.set_node(&zone("b", "z"));
    check_zones(&cluster, "z=2");
}

#[test]
fn a_binding_confirms_an_assumed_pod_without_decoding_it() {
    let version = |version: u64, node: &str, label: &str| {
        let mut header = setpoint_api::Header::new(key("p"));
        header.uid = "p".into();
        header.resource_version = ResourceVersion(version);
        header.labels = Box::new([("app".into(), label.into())]);
        header.fields = Box::new([("spec.nodeName".into(), node.into())]);
        Stored::new(header, "{}".into(), 1)
    };
    #[track_caller]
    fn check(old: &Stored, new: &Stored, expected: bool) {
        let mut cluster = ClusterState::default();
        cluster.set_node(&node("a", 1000));
        let mut pod = pod_requesting("p", "a", 100);
        pod.resource_version = ResourceVersion(7);
        cluster.assume(Arc::new(pod));
        assert_eq!(cluster.confirm(old, new), expected);
        assert_eq!(cluster.is_assumed(&key("p"), "p"), !expected);
    }
    check(&version(7, "", "x"), &version(8, "a", "x"), true);
    check(&version(6, "", "x"), &version(8, "a", "x"), false);
    check(&version(7, "", "x"), &version(8, "b", "x"), false);
    check(&version(7, "a", "x"), &version(8, "a", "x"), false);
    check(&version(7, "", "x"), &version(8, "a", "y"), false);
}
