//! Rows for the order and the waits.

use super::*;
use crate::fixtures;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("default", name)
}

fn with_priority(name: &str, priority: i32) -> Arc<PodInfo> {
    Arc::new(fixtures::with_spec(fixtures::pod(name, ""), |spec| {
        spec.priority = priority
    }))
}

fn pod(name: &str) -> Arc<PodInfo> {
    Arc::new(fixtures::pod(name, ""))
}

#[track_caller]
fn check_pops(queue: &mut Queue, expected: &[&str]) {
    let popped: Vec<String> = std::iter::from_fn(|| queue.pop())
        .map(|pod| pod.key.name().to_owned())
        .collect();
    assert_eq!(popped, expected);
}

#[test]
fn the_most_important_pod_comes_first_then_the_oldest() {
    let mut queue = Queue::default();
    for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
        queue.update(with_priority(name, priority));
    }
    check_pops(&mut queue, &["b", "d", "a", "c"]);
}

#[test]
fn a_pod_is_handed_out_once_until_it_is_given_back() {
    let mut queue = Queue::default();
    queue.update(pod("a"));
    queue.update(pod("a"));
    check_pops(&mut queue, &["a"]);
    queue.update(with_priority("a", 1));
    check_pops(&mut queue, &[]);
    queue.retry(&key("a"), at(0));
    check_pops(&mut queue, &[]);
    queue.flush_due(at(1));
    check_pops(&mut queue, &["a"]);
}

#[test]
fn a_changed_priority_changes_the_order() {
    let mut queue = Queue::default();
    queue.update(with_priority("a", 0));
    queue.update(with_priority("b", 1));
    queue.update(with_priority("a", 2));
    check_pops(&mut queue, &["a", "b"]);
}

#[test]
fn a_parked_pod_waits_for_a_change_and_for_its_backoff() {
    let mut queue = Queue::default();
    queue.update(pod("a"));
    check_pops(&mut queue, &["a"]);
    queue.add_unschedulable(&key("a"), at(0));
    queue.flush_due(at(200));
    check_pops(&mut queue, &[]);
    queue.move_to_active_or_backoff(at(200));
    check_pops(&mut queue, &["a"]);
    queue.add_unschedulable(&key("a"), at(200));
    queue.move_to_active_or_backoff(at(201));
    check_pops(&mut queue, &[]);
    assert_eq!(queue.next_due(), Some(at(202)));
    queue.flush_due(at(202));
    check_pops(&mut queue, &["a"]);
}

#[test]
fn a_parked_pod_is_tried_again_after_five_minutes_in_any_case() {
    let mut queue = Queue::default();
    queue.update(pod("a"));
    check_pops(&mut queue, &["a"]);
    queue.add_unschedulable(&key("a"), at(0));
    assert_eq!(queue.next_due(), Some(at(300)));
    queue.flush_due(at(300));
    check_pops(&mut queue, &["a"]);
}

#[test]
fn a_pod_that_changed_is_tried_at_once() {
    let mut queue = Queue::default();
    queue.update(pod("a"));
    check_pops(&mut queue, &["a"]);
    queue.add_unschedulable(&key("a"), at(0));
    queue.update(with_priority("a", 1));
    check_pops(&mut queue, &["a"]);
}

#[test]
fn a_removed_pod_is_nowhere() {
    let mut queue = Queue::default();
    queue.update(pod("a"));
    queue.update(pod("b"));
    queue.remove(&key("a"));
    check_pops(&mut queue, &["b"]);
    queue.remove(&key("b"));
    queue.add_unschedulable(&key("b"), at(0));
    assert!(queue.is_empty() && queue.next_due().is_none());
}

#[test]
fn the_wait_doubles_up_to_its_bound() {
    let waits: Vec<u64> = (1..=6).map(|attempts| backoff(attempts).as_secs()).collect();
    assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
}

#[test]
fn a_new_pod_under_an_old_name_starts_afresh() {
    let mut queue = Queue::default();
    queue.update(pod("a"));
    check_pops(&mut queue, &["a"]);
    let mut other = fixtures::pod("a", "");
    other.uid = "other".into();
    queue.update(Arc::new(other));
    check_pops(&mut queue, &["a"]);
}
