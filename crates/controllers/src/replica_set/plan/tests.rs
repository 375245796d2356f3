//! Table tests of the decision and of the deletion order.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use setpoint_api::{Header, Key, Stored};

use super::*;

const NOW: i64 = 1_000_000_000;

/// A set in the default namespace that selects `app=web`.
fn set(replicas: i64) -> SetView {
    let body = json!({
        "metadata": {"name": "web", "generation": 3},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}},
        },
    });
    serde_json::from_value(body).unwrap()
}

/// A pod from words: its name, then in any order `on=<node>`, a phase, `ready=<seconds>`, `age=<seconds>`,
/// `cost=<n>`, `restarts=<n>`, `deleting`. Without words it is a Pending pod of an hour without a node.
fn pod(words: &str) -> Pod {
    let mut words = words.split_whitespace();
    let name = words.next().unwrap();
    let (mut age, mut node, mut ready) = (3600, "", None);
    let (mut phase, mut cost, mut restarts) = ("Pending", "", 0);
    let mut header = Header::new(Key::new("default", name));
    header.uid = name.into();
    header.labels = Box::new([("app".into(), "web".into())]);
    for word in words {
        match word.split_once('=') {
            Some(("on", value)) => node = value,
            Some(("age", value)) => age = value.parse().unwrap(),
            Some(("cost", value)) => cost = value,
            Some(("ready", value)) => ready = Some(value.parse().unwrap()),
            Some(("restarts", value)) => restarts = value.parse().unwrap(),
            None if word == "deleting" => header.deleting = true,
            None if word == "relabeled" => header.labels = Box::default(),
            _ => phase = word,
        }
    }
    let conditions: Vec<Value> = ready
        .map(|seconds| json!({"type": "Ready", "status": "True", "lastTransitionTime": ago(seconds)}))
        .into_iter()
        .collect();
    let body = json!({
        "metadata": {
            "creationTimestamp": ago(age),
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost},
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "c", "restartCount": restarts}],
        },
    });
    let bytes = Bytes::from(body.to_string());
    Pod::read(Arc::new(Stored::new(header, bytes, 1)))
}

fn ago(seconds: i64) -> String {
    Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

fn shown(plan: &Plan<'_>) -> String {
    match &plan.action {
        Action::Nothing => "nothing".to_owned(),
        Action::Create(count) => format!("create {count}"),
        Action::Delete(pods) => {
            let names: Vec<&str> = pods.iter().map(|pod| pod.object().key().name()).collect();
            format!("delete {}", names.join(" "))
        }
    }
}

#[track_caller]
fn check(replicas: i64, pods: &[&str], expected: &str) {
    let pods: Vec<Pod> = pods.iter().map(|words| pod(words)).collect();
    assert_eq!(
        shown(&plan(now(), &set(replicas), &pods, || pods.clone())),
        expected
    );
}

#[test]
fn rs5_a_missing_pod_is_created() {
    check(2, &["a"], "create 1");
    check(3, &[], "create 3");
}

#[test]
fn rs5_the_desired_number_needs_no_action() {
    check(0, &[], "nothing");
    check(2, &["a", "b Running on=n1"], "nothing");
}

#[test]
fn rs5_a_pod_too_many_is_deleted() {
    check(0, &["a"], "delete a");
}

#[test]
fn rs5_a_finished_or_deleting_pod_does_not_count() {
    check(
        2,
        &["a Failed", "b Succeeded", "c Running deleting", "d"],
        "create 1",
    );
    check(0, &["a Failed", "c Running deleting"], "nothing");
}

/// RS5, over random states: existing and planned pods always add up to the desired number, or to a full burst.
#[test]
fn rs5_the_difference_is_always_corrected_up_to_a_burst() {
    let live: Vec<Pod> = (0..1100)
        .map(|n| pod(&format!("live-{n} Running on=n{}", n % 7)))
        .collect();
    let dead: Vec<Pod> = (0..20).map(|n| pod(&format!("dead-{n} Failed"))).collect();
    proptest::proptest!(|(desired in 0_usize..1100, active in 0_usize..1100, finished in 0_usize..20)| {
        let pods = [&live[..active], &dead[..finished]].concat();
        let plan = plan(now(), &set(desired.try_into().unwrap()), &pods, || pods.clone());
        let (created, deleted) = match &plan.action {
            Action::Nothing => (0, 0),
            Action::Create(count) => (*count, 0),
            Action::Delete(victims) => (0, victims.len()),
        };
        let after = active + created - deleted;
        proptest::prop_assert!(after == desired || created.max(deleted) == BURST_REPLICAS);
        proptest::prop_assert!(created <= BURST_REPLICAS && deleted <= BURST_REPLICAS);
    });
}

#[test]
fn rs6_one_sync_is_at_most_a_burst() {
    check(1200, &[], "create 500");
    let names: Vec<String> = (0..600).map(|n| format!("p{n}")).collect();
    let pods: Vec<Pod> = names.iter().map(|name| pod(name)).collect();
    let plan = plan(now(), &set(0), &pods, || pods.clone());
    assert!(matches!(&plan.action, Action::Delete(victims) if victims.len() == BURST_REPLICAS));
}

#[test]
fn rs13_an_unbound_pod_is_deleted_first() {
    check(1, &["a on=n1 Running ready=9", "b"], "delete b");
}

#[test]
fn rs13_an_earlier_phase_is_deleted_first() {
    check(1, &["a on=n1 Running", "b on=n2 Pending"], "delete b");
    check(1, &["a on=n1 Running", "b on=n2 Odd"], "delete b");
    check(1, &["a on=n1 Odd", "b on=n2 Pending"], "delete b");
}

#[test]
fn rs13_an_unready_pod_is_deleted_first() {
    check(1, &["a on=n1 Running ready=9", "b on=n2 Running"], "delete b");
}

#[test]
fn rs13_a_lower_deletion_cost_is_deleted_first() {
    check(
        1,
        &["a on=n1 Running ready=9 cost=-5", "b on=n2 Running ready=9"],
        "delete a",
    );
    check(
        1,
        &[
            "a on=n1 Running ready=9 cost=x",
            "b on=n2 Running ready=9 cost=-1",
        ],
        "delete b",
    );
}

#[test]
fn rs13_a_pod_on_a_crowded_node_is_deleted_first() {
    let spread = "a on=n1 Running ready=9";
    check(
        2,
        &[spread, "b on=n2 Running ready=9", "c on=n2 Running ready=9"],
        "delete b",
    );
}

#[test]
fn rs13_a_pod_ready_for_less_time_is_deleted_first() {
    check(
        1,
        &["a on=n1 Running ready=500", "b on=n2 Running ready=10"],
        "delete b",
    );
}

#[test]
fn rs13_more_restarts_are_deleted_first() {
    check(
        1,
        &["a on=n1 Running ready=9", "b on=n2 Running ready=9 restarts=3"],
        "delete b",
    );
}

#[test]
fn rs13_a_newer_pod_is_deleted_first_and_about_the_same_age_is_decided_by_uid() {
    check(1, &["a age=4000", "b age=60"], "delete b");
    check(1, &["b age=1030", "a age=1025"], "delete a");
}

/// RS13: whatever the pods, the criteria are a total order. Sorting panics otherwise, and no pod is
/// deleted.
#[test]
fn rs13_the_deletion_order_is_a_total_order() {
    let words = ("[a-d][a-d]", 0..3u8, 0..4i32, 1..40i64, 1..40i64);
    let pod = proptest::strategy::Strategy::prop_map(words, |(name, node, restarts, ready, age)| {
        let ready = if node == 0 {
            String::new()
        } else {
            format!("ready={}", ready * 7)
        };
        let age = age * 11;
        pod(&format!(
            "{name} on=n{node} Running {ready} age={age} restarts={restarts}"
        ))
    });
    proptest::proptest!(|(a in &pod, b in &pod, c in &pod)| {
        let order = |a: &Pod, b: &Pod| deletion_order::compare(now(), a, b, &|_| 1);
        proptest::prop_assert_eq!(order(&a, &b), order(&b, &a).reverse());
        if order(&a, &b).is_le() && order(&b, &c).is_le() {
            proptest::prop_assert!(order(&a, &c).is_le(), "{a:?} {b:?} {c:?}");
        }
    });
}

#[track_caller]
fn check_counts(replicas: i64, pods: &[&str], expected: (i32, i32, i32, i32, i32)) {
    let pods: Vec<Pod> = pods.iter().map(|words| pod(words)).collect();
    let mut set = set(replicas);
    set.min_ready_seconds = 30;
    let counts = plan(now(), &set, &pods, || pods.clone()).counts;
    let found = (
        counts.active,
        counts.fully_labeled,
        counts.ready,
        counts.available,
        counts.terminating,
    );
    assert_eq!(found, expected);
}

#[test]
fn rs4_the_counts_are_of_the_pods_observed() {
    check_counts(1, &[], (0, 0, 0, 0, 0));
    check_counts(
        1,
        &["a", "b Running ready=5", "c Running ready=60"],
        (3, 3, 2, 1, 0),
    );
    check_counts(
        1,
        &["a relabeled", "b Failed", "c Running deleting"],
        (1, 0, 0, 0, 1),
    );
}

#[test]
fn a_ready_pod_is_checked_again_when_it_becomes_available() {
    let pods = vec![pod("a Running ready=5"), pod("b Running ready=20")];
    let mut set = set(2);
    set.min_ready_seconds = 30;
    let plan = plan(now(), &set, &pods, || pods.clone());
    assert_eq!(plan.next, Next::After(Duration::from_secs(10)));
}

#[test]
fn a_pod_that_cannot_be_read_counts_but_is_not_ready() {
    let header = Header::new(Key::new("default", "odd"));
    let odd = Pod::read(Arc::new(Stored::new(
        header,
        Bytes::from_static(b"{\"spec\":3}"),
        1,
    )));
    let pods = vec![odd];
    let plan = plan(now(), &set(1), &pods, || pods.clone());
    assert_eq!((plan.counts.active, plan.counts.ready), (1, 0));
    assert_eq!(shown(&plan), "nothing");
}
