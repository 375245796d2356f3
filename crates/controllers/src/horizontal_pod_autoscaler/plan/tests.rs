//! Table tests: pod states and metrics in, replicas out.

use std::sync::Arc;

use serde_json::json;
use setpoint_api::{Header, Key, Stored};

use super::*;

const NOW: i64 = 100_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod that requests a whole CPU, or nothing; `+` is ready, `-` is not, `?` has never been, `p` is pending, `x` is
/// terminating, `f` has failed.
fn pod(n: usize, state: char) -> Pod {
    let phase = match state {
        'p' => "Pending",
        'f' => "Failed",
        _ => "Running",
    };
    let is_ready = if matches!(state, '-' | '?' | 'p') {
        "False"
    } else {
        "True"
    };
    let since = at(if state == '?' { NOW - 3599 } else { NOW - 60 });
    let body = json!({
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": phase,
            "startTime": at(NOW - 3600),
            "conditions": [{"type": "Ready", "status": is_ready, "lastTransitionTime": since}],
        },
    });
    let mut header = Header::new(Key::new("default", &format!("pod-{n}")));
    header.deleting = state == 'x';
    Pod::read(Arc::new(Stored::new(header, body.to_string().into(), 1)))
}

fn samples(values: &[i64]) -> Samples {
    let sample = |value: &i64| Sample {
        value: *value,
        at: at(NOW - 5),
        window: SignedDuration::from_secs(30),
    };
    let known = values.iter().enumerate().filter(|(_, value)| **value >= 0);
    known
        .map(|(n, value)| (format!("pod-{n}"), sample(value)))
        .collect()
}

fn run(states: &str, values: &[i64], pod_target: PodTarget<'_>, cpu: bool) -> Result<Proposal, String> {
    let pods: Vec<Pod> = states
        .chars()
        .enumerate()
        .map(|(n, state)| pod(n, state))
        .collect();
    let count = i32::try_from(pods.len()).unwrap();
    let input = CalculatorInput {
        now: at(NOW),
        spec_replicas: count,
        status_replicas: count,
        pods: &pods,
        tolerances: Tolerances::of(&Spec::default(), 0.1),
        settings: Settings::default(),
    };
    by_pods(&input, samples(values), pod_target, cpu)
}

/// Pods in these states use so many millicores (-1: no metric), with this target utilization.
#[track_caller]
fn check(states: &str, values: &[i64], percent: i32, expected: i32) {
    let pod_target = PodTarget::Utilization {
        percent,
        resource: "cpu",
        container: None,
    };
    let proposal = run(states, values, pod_target, true).unwrap();
    assert_eq!(proposal.replicas, expected, "{proposal:?}");
}

#[track_caller]
fn check_error(states: &str, values: &[i64], expected: &str) {
    let pod_target = PodTarget::Utilization {
        percent: 50,
        resource: "cpu",
        container: None,
    };
    assert_eq!(run(states, values, pod_target, true).unwrap_err(), expected);
}

#[test]
fn the_replicas_follow_the_ratio() {
    check("+++", &[300, 500, 700], 30, 5);
    check("+++++", &[100, 300, 500, 250, 250], 50, 3);
}

#[test]
fn a_ratio_near_one_changes_nothing() {
    check("++++", &[1010, 1030, 1050, 1010], 100, 4);
    check("++", &[550, 550], 50, 2);
    check("++", &[560, 560], 50, 3);
}

#[test]
fn starting_pods_do_not_scale_up() {
    check("+??", &[600, 900, 900], 30, 3);
    check("++p", &[600, 600, -1], 30, 4);
}

#[test]
fn a_pod_that_was_ready_once_counts_even_if_it_is_not_now() {
    check("++-", &[500, 500, 500], 50, 3);
}

#[test]
fn pods_without_metrics_count_against_the_change() {
    // The two alone would give 6; with the missing one at zero it is 4.
    check("++-", &[900, 900, -1], 30, 6);
    // With the missing one at its full request nothing is scaled down.
    check("+++", &[300, 300, -1], 50, 3);
    check("++++", &[100, 100, 100, -1], 50, 3);
}

#[test]
fn deleted_pods_do_not_count() {
    check("++x", &[1000, 1000, 9000], 50, 4);
    check("++f", &[1000, 1000, 9000], 50, 4);
}

#[test]
fn without_metrics_there_is_no_replica_count() {
    check_error("", &[], NO_PODS);
    check_error(
        "pp",
        &[1, 1],
        "did not receive metrics for targeted pods (pods might be unready)",
    );
}

#[test]
fn a_pod_without_a_request_has_no_utilization() {
    let missing = PodTarget::Utilization {
        percent: 50,
        resource: "memory",
        container: None,
    };
    assert_eq!(
        run("+", &[1000], missing, false).unwrap_err(),
        "missing request for memory in container main of Pod pod-0"
    );
    let absent = PodTarget::Utilization {
        percent: 50,
        resource: "cpu",
        container: Some("side"),
    };
    assert_eq!(
        run("+", &[1000], absent, false).unwrap_err(),
        "container side not found in Pod pod-0"
    );
}

#[test]
fn an_amount_is_an_average() {
    let proposal = run(
        "+++",
        &[20_000, 10_000, 30_000],
        PodTarget::Average(15_000),
        false,
    )
    .unwrap();
    let reading = MetricReading::Average(20_000);
    assert_eq!(proposal, Proposal { replicas: 4, reading });
}

#[track_caller]
fn check_whole(spec_replicas: i32, usage: i64, target: i64, expected: (i32, i32)) {
    let pods: Vec<Pod> = (0..spec_replicas)
        .map(|n| pod(usize::try_from(n).unwrap(), '+'))
        .collect();
    let input = CalculatorInput {
        now: at(NOW),
        spec_replicas,
        status_replicas: spec_replicas,
        pods: &pods,
        tolerances: Tolerances::of(&Spec::default(), 0.1),
        settings: Settings::default(),
    };
    let value = by_value(&input, usage, target).unwrap().replicas;
    let average = by_average(&input, usage, target).replicas;
    assert_eq!((value, average), expected);
}

#[test]
fn an_object_metric_is_a_value_or_an_average() {
    check_whole(3, 30_000, 15_000, (6, 2));
    check_whole(3, 15_000, 15_000, (3, 1));
    check_whole(3, 45_000, 15_000, (9, 3));
    check_whole(0, 45_000, 15_000, (3, 3));
    check_whole(3, 0, 15_000, (0, 0));
}
