//! Rows for the sums of nodes.

use super::*;
use crate::fixtures::{node, pod_requesting};
use crate::pod_info::SchedulingState;

/// The requests on each node, as `name:cpu/pods`, by name.
#[track_caller]
fn check(snapshot: &Snapshot, expected: &str) {
    let mut shown: Vec<String> = snapshot
        .nodes()
        .iter()
        .map(|node| format!("{}:{}/{}", node.name, node.requested.milli_cpu, node.pods))
        .collect();
    shown.sort();
    assert_eq!(shown.join(" "), expected);
}

#[test]
fn pods_add_up_on_their_node_and_move_with_their_updates() {
    let mut snapshot = Snapshot::default();
    snapshot.set_node(&node("a", 1000));
    snapshot.set_pod(pod_requesting("p", "a", 100));
    snapshot.set_pod(pod_requesting("q", "a", 10));
    check(&snapshot, "a:110/2");
    snapshot.set_pod(pod_requesting("p", "a", 200));
    check(&snapshot, "a:210/2");
    snapshot.remove_pod(&Key::new("default", "p"));
    check(&snapshot, "a:10/1");
}

#[test]
fn a_pod_seen_before_its_node_is_not_lost() {
    let mut snapshot = Snapshot::default();
    snapshot.set_pod(pod_requesting("p", "a", 100));
    assert_eq!(snapshot.len(), 0);
    snapshot.set_node(&node("a", 1000));
    assert_eq!(snapshot.len(), 1);
    check(&snapshot, "a:100/1");
}

#[test]
fn a_node_is_forgotten_with_its_last_pod() {
    let mut snapshot = Snapshot::default();
    snapshot.set_node(&node("a", 1000));
    snapshot.set_node(&node("b", 1000));
    snapshot.set_pod(pod_requesting("p", "a", 100));
    snapshot.remove_node("a");
    check(&snapshot, "a:100/1 b:0/0");
    snapshot.remove_pod(&Key::new("default", "p"));
    check(&snapshot, "b:0/0");
    snapshot.set_pod(pod_requesting("q", "b", 1));
    check(&snapshot, "b:1/1");
}

#[test]
fn a_finished_pod_takes_nothing() {
    let mut snapshot = Snapshot::default();
    snapshot.set_node(&node("a", 1000));
    snapshot.set_pod(pod_requesting("p", "a", 100));
    let mut finished = pod_requesting("p", "a", 100);
    finished.state = SchedulingState::Finished;
    assert_eq!(snapshot.set_pod(finished), QueueingHint::Queue);
    check(&snapshot, "a:0/0");
}

#[test]
fn only_a_change_that_may_help_unschedulable_pods_hints_so() {
    let mut snapshot = Snapshot::default();
    assert_eq!(snapshot.set_node(&node("a", 1000)), QueueingHint::Queue);
    assert_eq!(snapshot.set_node(&node("a", 1000)), QueueingHint::Skip);
    assert_eq!(
        snapshot.set_pod(pod_requesting("p", "a", 100)),
        QueueingHint::Skip
    );
    assert_eq!(
        snapshot.set_pod(pod_requesting("p", "a", 100)),
        QueueingHint::Skip
    );
    assert_eq!(
        snapshot.remove_pod(&Key::new("default", "p")),
        QueueingHint::Queue
    );
    assert_eq!(snapshot.remove_pod(&Key::new("default", "p")), QueueingHint::Skip);
}
