//! Table tests and properties of the scaling behavior.

use proptest::prelude::*;

use super::*;

const WINDOW: SignedDuration = SignedDuration::from_secs(300);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(100_000 + second).unwrap()
}

fn spec(min: i32, max: i32, behavior: Option<Behavior>) -> Spec {
    Spec {
        min_replicas: Some(min),
        max_replicas: max,
        behavior,
        ..Spec::default()
    }
}

fn rules(window: i64, select: Select, policies: &[(Unit, i32, i64)]) -> Rules {
    let policy = |(unit, value, period_seconds): &(Unit, i32, i64)| Policy {
        unit: *unit,
        value: *value,
        period_seconds: *period_seconds,
    };
    Rules {
        stabilization_window_seconds: Some(window),
        select_policy: Some(select),
        policies: policies.iter().map(policy).collect(),
        tolerance: None,
    }
}

/// Rows: the second, the recommendation, and the resulting replicas with their reason.
#[track_caller]
fn check(spec: &Spec, start: i32, rows: &[(i64, i32, i32, &str)]) {
    let (mut history, mut current) = (History::default(), start);
    history.begin(current, at(0));
    for (second, desired, expected, reason) in rows {
        let normalized = history.normalize(spec, (current, *desired), WINDOW, at(*second));
        let found = if normalized.limited {
            normalized.limit.0
        } else {
            normalized.able.0
        };
        assert_eq!(
            (normalized.replicas, found),
            (*expected, *reason),
            "at second {second}"
        );
        if normalized.replicas != current {
            history.record_scale(
                spec.behavior.as_ref(),
                (current, normalized.replicas),
                at(*second),
            );
            current = normalized.replicas;
        }
    }
}

#[test]
fn without_a_behavior_it_at_most_doubles_and_scales_down_after_five_minutes() {
    check(
        &spec(1, 100, None),
        2,
        &[
            (0, 50, 4, "ScaleUpLimit"),
            (15, 50, 8, "ScaleUpLimit"),
            (30, 8, 16, "ScaleUpLimit"),
            (320, 3, 8, "ScaleDownStabilized"),
            (330, 3, 8, "ScaleDownStabilized"),
            (331, 3, 3, "ReadyForNewScale"),
            (345, 3, 3, "ReadyForNewScale"),
        ],
    );
}

#[test]
fn it_stays_within_its_bounds() {
    check(&spec(2, 5, None), 3, &[(0, 9, 5, "TooManyReplicas")]);
    check(&spec(2, 5, None), 5, &[(301, 1, 2, "TooFewReplicas")]);
}

#[test]
fn policies_limit_how_many_are_added_in_a_period() {
    let up = rules(0, Select::Max, &[(Unit::Pods, 2, 60), (Unit::Percent, 50, 60)]);
    let behavior = Behavior {
        scale_up: up,
        scale_down: rules(0, Select::Max, &[(Unit::Percent, 100, 15)]),
    };
    check(
        &spec(1, 100, Some(behavior)),
        4,
        &[
            (0, 50, 6, "ScaleUpLimit"),
            (15, 50, 6, "ScaleUpLimit"),
            (61, 50, 9, "ScaleUpLimit"),
            (122, 50, 14, "ScaleUpLimit"),
            (123, 1, 1, "ReadyForNewScale"),
        ],
    );
}

#[test]
fn the_smallest_change_or_none_can_be_selected() {
    let down = |select| Behavior {
        scale_up: rules(0, Select::Max, &[(Unit::Percent, 100, 15)]),
        scale_down: rules(0, select, &[(Unit::Pods, 1, 60), (Unit::Percent, 50, 60)]),
    };
    check(
        &spec(1, 100, Some(down(Select::Min))),
        10,
        &[(1, 1, 9, "ScaleDownLimit"), (2, 1, 9, "ScaleDownLimit")],
    );
    check(
        &spec(1, 100, Some(down(Select::Max))),
        10,
        &[(1, 1, 5, "ScaleDownLimit")],
    );
    check(
        &spec(1, 100, Some(down(Select::Disabled))),
        10,
        &[(1, 1, 10, "ScaleDownLimit")],
    );
}

#[test]
fn windows_stabilize_in_both_directions() {
    let behavior = Behavior {
        scale_up: rules(60, Select::Max, &[(Unit::Pods, 100, 15)]),
        scale_down: rules(120, Select::Max, &[(Unit::Percent, 100, 15)]),
    };
    check(
        &spec(1, 100, Some(behavior)),
        5,
        &[
            (15, 20, 5, "ScaleUpStabilized"),
            (61, 30, 20, "ScaleUpStabilized"),
            (76, 2, 20, "ScaleDownStabilized"),
            (182, 2, 2, "ReadyForNewScale"),
        ],
    );
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let select = prop_oneof![Just(Select::Max), Just(Select::Min), Just(Select::Disabled)];
    let unit = prop_oneof![Just(Unit::Pods), Just(Unit::Percent)];
    let policies = prop::collection::vec((unit, 1..200, 1_i64..600), 1..3);
    (0_i64..600, select, policies).prop_map(|(window, select, policies)| rules(window, select, &policies))
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let behavior =
        (any_rules(), any_rules()).prop_map(|(scale_up, scale_down)| Behavior { scale_up, scale_down });
    (0..10, 0..50, prop::option::of(behavior))
        .prop_map(|(min, more, behavior)| spec(min, min + more, behavior))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the recommendation, the replicas stay within their bounds, and with a behavior they never move the
    /// other way.
    #[test]
    fn the_replicas_stay_within_their_bounds(
        spec in any_spec(),
        recommendations in prop::collection::vec((0_i64..120, 0..200), 1..40),
    ) {
        let (mut history, mut current, mut second) = (History::default(), spec.min(), 0);
        history.begin(current, at(0));
        for (passed, desired) in recommendations {
            second += passed;
            let normalized = history.normalize(&spec, (current, desired), WINDOW, at(second));
            prop_assert!((spec.min()..=spec.max_replicas.max(spec.min())).contains(&normalized.replicas));
            if spec.behavior.is_some() {
                prop_assert!(desired < current || normalized.replicas >= current);
                prop_assert!(desired > current || normalized.replicas <= current);
            }
            history.record_scale(spec.behavior.as_ref(), (current, normalized.replicas), at(second));
            current = normalized.replicas;
        }
    }

    /// With a constant recommendation the replicas reach it.
    #[test]
    fn replicas_converge_to_the_recommendation(mut spec in any_spec(), start in 0..60_i32, recommended in 0..60_i32) {
        let free = |behavior: &mut Behavior| {
            for rules in [&mut behavior.scale_up, &mut behavior.scale_down] {
                rules.select_policy = Some(Select::Max);
                rules.policies.push(Policy { unit: Unit::Pods, value: 1, period_seconds: 15 });
            }
        };
        spec.behavior.iter_mut().for_each(free);
        let mut current = start.clamp(spec.min(), spec.max_replicas);
        let mut history = History::default();
        history.begin(current, at(0));
        for look in 1..200 {
            let before = current;
            current = history.normalize(&spec, (current, recommended), WINDOW, at(look * 16)).replicas;
            if current != before {
                history.record_scale(spec.behavior.as_ref(), (before, current), at(look * 16));
            }
        }
        prop_assert_eq!(current, recommended.clamp(spec.min(), spec.max_replicas));
    }
}
