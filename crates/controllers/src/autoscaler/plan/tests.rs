//! How many replicas the figures ask for, row by row.

use super::*;
use crate::autoscaler::views::{Container, Milli, PodCondition, PodSpec, Resources};

const NOW: i64 = 100_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A pod that asks for a whole processor, or not even that; `+` is ready, `-` is not, `?` has never been, `p` is
/// pending, `x` is on its way out, `f` has failed.
fn pod(n: usize, state: char) -> Pod {
    let mut pod = Pod {
        name: format!("pod-{n}"),
        deleting: state == 'x',
        ..Pod::default()
    };
    let requests = [("cpu".into(), Milli(1000))].into();
    let container = Container {
        name: "main".into(),
        resources: Resources { requests },
        ..Container::default()
    };
    pod.body.spec = PodSpec {
        containers: vec![container],
        ..PodSpec::default()
    };
    pod.body.status.phase = match state {
        'p' => Phase::Pending,
        'f' => Phase::Failed,
        _ => Phase::Running,
    };
    pod.body.status.start_time = Some(at(NOW - 3600));
    let since = if state == '?' { NOW - 3599 } else { NOW - 60 };
    pod.body.status.conditions = vec![PodCondition {
        type_: "Ready".into(),
        status: if matches!(state, '-' | '?' | 'p') {
            "False"
        } else {
            "True"
        }
        .into(),
        last_transition_time: Some(at(since)),
    }];
    pod
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

fn run(states: &str, values: &[i64], wanted: Wanted<'_>, cpu: bool) -> Result<Proposal, String> {
    let pods: Vec<Pod> = states
        .chars()
        .enumerate()
        .map(|(n, state)| pod(n, state))
        .collect();
    let count = i32::try_from(pods.len()).unwrap();
    let seen = Seen {
        now: at(NOW),
        asked: count,
        there: count,
        pods: &pods,
        tolerances: Tolerances::of(&Spec::default(), 0.1),
        settings: Settings::default(),
    };
    by_pods(&seen, samples(values), wanted, cpu)
}

/// Pods in these states use so many thousandths (-1: nothing is known) of a processor, and should use such a share.
#[track_caller]
fn check(states: &str, values: &[i64], percent: i32, expected: i32) {
    let wanted = Wanted::Share {
        percent,
        resource: "cpu",
        container: None,
    };
    let proposal = run(states, values, wanted, true).unwrap();
    assert_eq!(proposal.replicas, expected, "{proposal:?}");
}

#[track_caller]
fn check_error(states: &str, values: &[i64], expected: &str) {
    let wanted = Wanted::Share {
        percent: 50,
        resource: "cpu",
        container: None,
    };
    assert_eq!(run(states, values, wanted, true).unwrap_err(), expected);
}

#[test]
fn the_number_follows_the_ratio() {
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
fn pods_that_start_do_not_make_it_grow() {
    check("+??", &[600, 900, 900], 30, 3);
    check("++p", &[600, 600, -1], 30, 4);
}

#[test]
fn a_pod_that_was_ready_once_counts_even_if_it_is_not_now() {
    check("++-", &[500, 500, 500], 50, 3);
}

#[test]
fn pods_without_figures_count_against_the_change() {
    // Alone the two would ask for 6; with the missing one at nothing it is 4.
    check("++-", &[900, 900, -1], 30, 6);
    // With the missing one at all of its request nothing falls.
    check("+++", &[300, 300, -1], 50, 3);
    check("++++", &[100, 100, 100, -1], 50, 3);
}

#[test]
fn pods_that_are_gone_do_not_count() {
    check("++x", &[1000, 1000, 9000], 50, 4);
    check("++f", &[1000, 1000, 9000], 50, 4);
}

#[test]
fn without_figures_there_is_no_number() {
    check_error("", &[], NO_PODS);
    check_error(
        "pp",
        &[1, 1],
        "did not receive metrics for targeted pods (pods might be unready)",
    );
}

#[test]
fn what_was_not_asked_for_has_no_share() {
    let missing = Wanted::Share {
        percent: 50,
        resource: "memory",
        container: None,
    };
    assert_eq!(
        run("+", &[1000], missing, false).unwrap_err(),
        "missing request for memory in container main of Pod pod-0"
    );
    let absent = Wanted::Share {
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
    let proposal = run("+++", &[20_000, 10_000, 30_000], Wanted::Average(15_000), false).unwrap();
    let reading = Reading::Average(20_000);
    assert_eq!(proposal, Proposal { replicas: 4, reading });
}

#[track_caller]
fn check_whole(asked: i32, usage: i64, target: i64, expected: (i32, i32)) {
    let pods: Vec<Pod> = (0..asked)
        .map(|n| pod(usize::try_from(n).unwrap(), '+'))
        .collect();
    let seen = Seen {
        now: at(NOW),
        asked,
        there: asked,
        pods: &pods,
        tolerances: Tolerances::of(&Spec::default(), 0.1),
        settings: Settings::default(),
    };
    let value = by_value(&seen, usage, target).unwrap().replicas;
    let average = by_average(&seen, usage, target).replicas;
    assert_eq!((value, average), expected);
}

#[test]
fn a_figure_of_something_else_is_taken_whole_or_per_replica() {
    check_whole(3, 30_000, 15_000, (6, 2));
    check_whole(3, 15_000, 15_000, (3, 1));
    check_whole(3, 45_000, 15_000, (9, 3));
    check_whole(0, 45_000, 15_000, (3, 3));
    check_whole(3, 0, 15_000, (0, 0));
}
