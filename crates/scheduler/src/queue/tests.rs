//! Rows for the order, the waits and the events.

use std::sync::atomic::{AtomicBool, Ordering};

use setpoint_api::SystemClock;

use super::*;
use crate::fixtures;
use crate::framework::{
    ActionType, EnqueueExtensions, EventChange, Handle, Plugin, PreEnqueue, Registration, Rejection,
};
use crate::metrics::Metrics;
use crate::plugins::default_profile;
use crate::state::{NodeChange, NodeProperties};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn queue() -> Queue {
    let profiles = Profiles::new([default_profile(&Handle::default())]);
    Queue::new(Arc::new(profiles), BackoffConfig::default())
}

fn with_priority(name: &str, priority: i32) -> Arc<PodInfo> {
    Arc::new(fixtures::with_spec(fixtures::pod(name, ""), |spec| {
        spec.priority = priority
    }))
}

fn pod(name: &str) -> Arc<PodInfo> {
    Arc::new(fixtures::pod(name, ""))
}

fn rejected_by(plugin: &'static str) -> Diagnosis {
    let mut diagnosis = Diagnosis::new(1);
    diagnosis.unschedulable_plugins.insert(plugin);
    diagnosis
}

/// Rejects a popped pod by NodeResourcesFit.
fn reject(queue: &mut Queue, name: &str, now: i64) {
    queue.add_unschedulable(&key(name), &rejected_by("NodeResourcesFit"), at(now));
}

/// A node was added.
fn add_node(queue: &mut Queue, now: i64) {
    let node = NodeProperties {
        max_pods: 10,
        ..NodeProperties::default()
    };
    let change = EventChange::Node(NodeChange {
        name: "n".into(),
        old: None,
        new: Some(Arc::new(node)),
    });
    queue.move_all(
        ClusterEvent::new(EventResource::Node, ActionType::ADD),
        &change,
        at(now),
    );
}

#[track_caller]
fn check_pops(queue: &mut Queue, now: i64, expected: &[&str]) {
    let popped: Vec<String> = std::iter::from_fn(|| queue.pop(at(now)))
        .map(|queued| queued.pod.key.name().to_owned())
        .collect();
    assert_eq!(popped, expected);
}

#[test]
fn the_most_important_pod_comes_first_then_the_oldest() {
    let mut queue = queue();
    for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        queue.update(with_priority(name, priority), at(0));
    }
    check_pops(&mut queue, 0, &["b", "d", "a", "c"]);
}

#[test]
fn a_pod_is_handed_out_once_until_it_is_given_back() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    queue.update(with_priority("a", 1), at(0));
    check_pops(&mut queue, 0, &[]);
    queue.retry(&key("a"), at(0));
    check_pops(&mut queue, 0, &[]);
    queue.flush_due(at(1));
    check_pops(&mut queue, 1, &["a"]);
}

#[test]
fn a_changed_priority_changes_the_order() {
    let mut queue = queue();
    queue.update(with_priority("a", 0), at(0));
    queue.update(with_priority("b", 1), at(0));
    queue.update(with_priority("a", 2), at(0));
    check_pops(&mut queue, 0, &["a", "b"]);
}

#[test]
fn an_unschedulable_pod_waits_for_an_event() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    reject(&mut queue, "a", 0);
    queue.flush_due(at(200));
    check_pops(&mut queue, 200, &[]);
    add_node(&mut queue, 200);
    check_pops(&mut queue, 200, &["a"]);
}

#[test]
fn while_other_pods_are_active_a_pod_waits_for_its_backoff() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    reject(&mut queue, "a", 0);
    queue.update(pod("b"), at(0));
    add_node(&mut queue, 0);
    assert_eq!((queue.counts().active, queue.counts().backoff), (1, 1));
    assert_eq!(queue.next_due(), Some(at(1)));
    check_pops(&mut queue, 0, &["b", "a"]);
}

#[test]
fn an_event_that_the_rejecting_plugin_did_not_register_wakes_nothing() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    queue.add_unschedulable(&key("a"), &rejected_by("NodeAffinity"), at(0));
    let change = EventChange::Pod {
        old: Some(pod("other")),
        new: None,
    };
    let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
    queue.move_all(event, &change, at(100));
    check_pops(&mut queue, 100, &[]);
    assert_eq!(queue.counts().unschedulable, 1);
}

#[test]
fn an_event_during_the_attempt_is_not_lost() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    add_node(&mut queue, 0);
    reject(&mut queue, "a", 0);
    assert_eq!((queue.counts().backoff, queue.in_flight.len()), (1, 0));
    check_pops(&mut queue, 0, &["a"]);
}

#[test]
fn a_pod_whose_events_were_forgotten_is_tried_again_if_its_binding_is_rejected() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    queue.done(&key("a"));
    add_node(&mut queue, 0);
    reject(&mut queue, "a", 0);
    assert_eq!(queue.counts().backoff, 1);
    check_pops(&mut queue, 0, &["a"]);
}

#[test]
fn a_pod_that_leaves_its_node_does_not_wake_itself() {
    let delete = |queue: &mut Queue, name: &str| {
        let change = EventChange::Pod {
            old: Some(Arc::new(fixtures::pod_requesting(name, "n", 100))),
            new: None,
        };
        let event = ClusterEvent::new(EventResource::AssignedPod, ActionType::DELETE);
        queue.move_all(event, &change, at(0));
    };
    let mut queue = queue();
    queue.update(Arc::new(fixtures::pod_requesting("a", "", 100)), at(0));
    check_pops(&mut queue, 0, &["a"]);
    delete(&mut queue, "a");
    reject(&mut queue, "a", 0);
    assert_eq!(queue.counts().unschedulable, 1);
    delete(&mut queue, "b");
    check_pops(&mut queue, 0, &["a"]);
}

#[test]
fn an_unschedulable_pod_is_tried_again_after_five_minutes_in_any_case() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    reject(&mut queue, "a", 0);
    assert_eq!(queue.next_due(), Some(at(300)));
    queue.flush_due(at(300));
    check_pops(&mut queue, 300, &["a"]);
}

#[test]
fn an_unschedulable_pod_is_tried_when_its_own_change_may_help() {
    let mut queue = queue();
    let large = |milli_cpu| Arc::new(fixtures::pod_requesting("a", "", milli_cpu));
    queue.update(large(200), at(0));
    check_pops(&mut queue, 0, &["a"]);
    reject(&mut queue, "a", 0);
    queue.update(large(300), at(5));
    check_pops(&mut queue, 5, &[]);
    queue.update(large(100), at(5));
    check_pops(&mut queue, 5, &["a"]);
}

#[test]
fn a_gated_pod_waits_until_its_last_gate_is_gone() {
    let mut queue = queue();
    let mut gated = fixtures::pod("a", "");
    gated.scheduling_gates = Box::new(["g".into()]);
    queue.update(Arc::new(gated), at(0));
    assert_eq!(queue.counts().gated, 1);
    check_pops(&mut queue, 0, &[]);
    queue.update(pod("a"), at(0));
    assert_eq!(queue.counts().gated, 0);
    check_pops(&mut queue, 0, &["a"]);
}

#[test]
fn a_pod_for_which_a_plugin_failed_to_act_is_tried_again_after_its_backoff() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    reject(&mut queue, "a", 0);
    queue.wake(&key("a"), "another uid", at(0));
    assert_eq!(queue.counts().unschedulable, 1);
    queue.wake(&key("a"), "a", at(0));
    assert_eq!((queue.counts().backoff, queue.next_due()), (1, Some(at(1))));
}

/// A PreEnqueue plugin that holds pods back until a claim was added.
#[derive(Debug, Default)]
struct ClaimGate {
    is_open: AtomicBool,
}

impl Plugin for ClaimGate {
    fn name(&self) -> &'static str {
        "ClaimGate"
    }
}

impl PreEnqueue for ClaimGate {
    fn pre_enqueue(&self, _: &PodInfo) -> Result<(), Rejection> {
        match self.is_open.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Rejection::unresolvable("the claim does not exist")),
        }
    }
}

impl EnqueueExtensions for ClaimGate {
    fn events_to_register(&self) -> Vec<ClusterEvent> {
        vec![ClusterEvent::new(EventResource::ResourceClaim, ActionType::ADD)]
    }
}

#[test]
fn an_event_that_the_gating_plugin_registered_ends_the_wait_of_a_gated_pod() {
    let gate = Arc::new(ClaimGate::default());
    let mut profile = default_profile(&Handle::default());
    let registration = Registration {
        pre_enqueue: Some(gate.clone()),
        enqueue: Some(gate.clone()),
        ..Registration::new("ClaimGate")
    };
    profile.add(registration, 0);
    let mut queue = Queue::new(Arc::new(Profiles::new([profile])), BackoffConfig::default());
    queue.update(pod("a"), at(0));
    let event = ClusterEvent::new(EventResource::ResourceClaim, ActionType::ADD);
    let change = EventChange::Object { old: None, new: None };
    queue.move_all(event, &change, at(1));
    assert_eq!(queue.counts().gated, 1);
    gate.is_open.store(true, Ordering::Relaxed);
    add_node(&mut queue, 2);
    assert_eq!(queue.counts().gated, 1);
    queue.move_all(event, &change, at(3));
    assert_eq!(queue.counts().gated, 0);
    check_pops(&mut queue, 3, &["a"]);
    queue.remove(&key("a"));
    assert_eq!(queue.counts(), QueueCounts::default());
}

#[test]
fn a_removed_pod_is_nowhere() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    queue.update(pod("b"), at(0));
    queue.remove(&key("a"));
    check_pops(&mut queue, 0, &["b"]);
    queue.remove(&key("b"));
    reject(&mut queue, "b", 0);
    assert!(queue.is_empty() && queue.next_due().is_none());
    assert_eq!(queue.counts(), QueueCounts::default());
}

#[test]
fn a_new_pod_under_an_old_name_starts_afresh() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    let mut other = fixtures::pod("a", "");
    other.uid = "other".into();
    queue.update(Arc::new(other), at(0));
    check_pops(&mut queue, 0, &["a"]);
}

/// The samples of a metric in the text, without its name.
fn samples(metrics: &Metrics, name: &str) -> Vec<String> {
    let text = metrics.to_text();
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn metrics_name_the_event_that_brings_a_pod_into_a_queue() {
    let metrics = Metrics::new(Arc::new(SystemClock::new()));
    let mut queue = queue().with_metrics(metrics.events.clone());
    queue.update(pod("a"), at(0));
    queue.update(pod("b"), at(0));
    check_pops(&mut queue, 0, &["a", "b"]);
    reject(&mut queue, "a", 0);
    queue.retry(&key("b"), at(0));
    queue.flush_due(at(2));
    add_node(&mut queue, 10);
    assert_eq!(
        samples(&metrics, "scheduler_queue_incoming_pods_total"),
        [
            "{event=\"BackoffComplete\",queue=\"active\"} 1",
            "{event=\"NodeAdd\",queue=\"active\"} 1",
            "{event=\"UnscheduledPodAdd\",queue=\"active\"} 2",
            "{event=\"ScheduleAttemptFailure\",queue=\"backoff\"} 1",
            "{event=\"ScheduleAttemptFailure\",queue=\"unschedulable\"} 1",
        ]
    );
    let hints = samples(
        &metrics,
        "scheduler_queueing_hint_execution_duration_seconds_count",
    );
    assert_eq!(
        hints,
        ["{event=\"NodeAdd\",hint=\"Queue\",plugin=\"NodeResourcesFit\"} 1"]
    );
}

#[tokio::test]
async fn a_rejected_pod_is_counted_for_its_plugins_until_it_is_tried_again_or_removed() {
    let metrics = Metrics::default();
    let mut queue = queue().with_metrics(metrics.events.clone());
    let check = |expected: &str| {
        let all = samples(&metrics, "scheduler_unschedulable_pods");
        assert_eq!(all.join(" "), expected);
    };
    for name in ["a", "b"] {
        queue.update(pod(name), at(0));
    }
    check_pops(&mut queue, 0, &["a", "b"]);
    check("");
    reject(&mut queue, "a", 0);
    reject(&mut queue, "b", 0);
    let labels = "{plugin=\"NodeResourcesFit\",profile=\"default-scheduler\"}";
    check(&format!("{labels} 2"));
    queue.remove(&key("b"));
    check(&format!("{labels} 1"));
    add_node(&mut queue, 10);
    check(&format!("{labels} 1"));
    check_pops(&mut queue, 10, &["a"]);
    check(&format!("{labels} 0"));
}

#[test]
fn a_pod_whose_binding_conflicted_is_tried_once_changes_were_seen_or_after_a_backoff() {
    let mut queue = queue();
    queue.update(pod("a"), at(0));
    check_pops(&mut queue, 0, &["a"]);
    queue.wait_for_changes(&key("a"), at(0));
    check_pops(&mut queue, 0, &[]);
    queue.end_backoff(&key("a"));
    check_pops(&mut queue, 0, &["a"]);
    queue.wait_for_changes(&key("a"), at(0));
    queue.flush_due(at(1));
    check_pops(&mut queue, 1, &["a"]);
    queue.remove(&key("a"));
    queue.end_backoff(&key("a"));
    assert!(queue.is_empty());
}
