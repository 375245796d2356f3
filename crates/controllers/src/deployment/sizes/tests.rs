//! Table tests and properties of the rollout arithmetic.

use proptest::prelude::*;

use super::*;

fn bounds(replicas: i32, surge: i32, unavailable: i32) -> Bounds {
    Bounds {
        replicas,
        surge,
        unavailable,
    }
}

fn size(desired_replicas: i32, available: i32) -> Size {
    Size {
        desired_replicas,
        available,
        max_replicas: None,
    }
}

#[test]
fn the_new_set_grows_into_the_headroom() {
    assert_eq!(grown(bounds(10, 2, 2), 0, 10), 2);
    assert_eq!(grown(bounds(10, 2, 2), 2, 12), 2);
    assert_eq!(grown(bounds(10, 2, 2), 2, 8), 6);
    assert_eq!(grown(bounds(10, 0, 1), 0, 9), 1);
    assert_eq!(grown(bounds(10, 5, 0), 8, 8), 10);
}

#[test]
fn old_sets_shrink_as_far_as_availability_allows() {
    // Nothing new is available yet, so only `maxUnavailable` pods are removed.
    assert_eq!(shrunk(bounds(10, 2, 2), &[size(10, 10)], size(2, 0)), [8]);
    assert_eq!(shrunk(bounds(10, 2, 2), &[size(8, 8)], size(4, 2)), [6]);
    // Unavailable pods are removed first, before available ones of older sets.
    assert_eq!(
        shrunk(bounds(10, 2, 2), &[size(5, 5), size(5, 3)], size(2, 0)),
        [5, 3]
    );
    assert_eq!(shrunk(bounds(10, 0, 0), &[size(10, 10)], size(0, 0)), [10]);
    assert_eq!(
        shrunk(bounds(3, 1, 1), &[size(1, 1), size(1, 1)], size(3, 3)),
        [0, 0]
    );
}

#[test]
fn a_deployment_scaled_in_the_middle_of_a_rollout_keeps_its_proportions() {
    let known = |desired_replicas| Size {
        desired_replicas,
        available: desired_replicas,
        max_replicas: Some(13),
    };
    // From 10 to 15 with a surge of 3: 18 pods instead of 13.
    assert_eq!(proportional(bounds(15, 3, 2), &[known(5), known(8)], 13), [7, 11]);
    // And down to 5.
    assert_eq!(proportional(bounds(5, 3, 2), &[known(5), known(8)], 13), [3, 5]);
    assert_eq!(proportional(bounds(0, 0, 0), &[known(5), known(8)], 13), [0, 0]);
    // Leftovers go to the largest; of equal ones the newer grows.
    assert_eq!(proportional(bounds(14, 0, 0), &[known(5), known(5)], 13), [9, 5]);
}

fn some_bounds() -> impl Strategy<Value = Bounds> {
    (0..50_i32, 0..20_i32, 0..20_i32)
        .prop_filter("one of the two must be", |(_, surge, unavailable)| {
            surge + unavailable > 0
        })
        .prop_map(|(replicas, surge, unavailable): (i32, i32, i32)| {
            bounds(replicas, surge, unavailable.min(replicas))
        })
        .prop_filter("with no pod to miss there must be a surge", |bounds| {
            bounds.surge > 0 || bounds.unavailable > 0 || bounds.replicas == 0
        })
}

fn some_size() -> impl Strategy<Value = Size> {
    (0..30, 0..30).prop_map(|(desired_replicas, available)| size(desired_replicas, available))
}

proptest! {
    #[test]
    fn growing_never_exceeds_the_surge(bounds in some_bounds(), new in 0..60i32, old in 0..60i32) {
        let grown = grown(bounds, new.min(bounds.replicas), new.min(bounds.replicas) + old);
        prop_assert!(grown >= new.min(bounds.replicas));
        prop_assert!(grown <= bounds.replicas);
        prop_assert!(grown == new.min(bounds.replicas) || grown + old <= bounds.max_pods());
    }

    #[test]
    fn shrinking_never_takes_availability_below_the_minimum(
        bounds in some_bounds(),
        olds in prop::collection::vec(some_size(), 0..4),
        new in some_size(),
    ) {
        let sizes = shrunk(bounds, &olds, new);
        let new_available = new.available.min(new.desired_replicas);
        let before: i32 = olds.iter().map(|old| old.available.min(old.desired_replicas)).sum::<i32>() + new_available;
        let left = olds.iter().zip(&sizes).map(|(old, size)| old.available.min(*size));
        let after: i32 = left.sum::<i32>() + new_available;
        prop_assert!(after >= before.min(bounds.min_available()));
        for (old, size) in olds.iter().zip(&sizes) {
            prop_assert!((0..=old.desired_replicas).contains(size));
        }
    }

    #[test]
    fn scaling_in_proportion_fills_what_is_allowed_and_no_more(
        bounds in some_bounds(),
        sets in prop::collection::vec(some_size(), 1..5),
        max_pods in 1..80i32,
    ) {
        // The annotation is never smaller than the number of pods.
        let before: i32 = sets.iter().map(|set| set.desired_replicas + 1).sum();
        let sets: Vec<Size> = sets
            .into_iter()
            .map(|set| Size { desired_replicas: set.desired_replicas + 1, max_replicas: Some(max_pods.max(before)), ..set })
            .collect();
        let sizes = proportional(bounds, &sets, 0);
        let allowed = if bounds.replicas > 0 { bounds.max_pods() } else { 0 };
        prop_assert!(sizes.iter().all(|size| *size >= 0));
        prop_assert_eq!(sizes.iter().sum::<i32>(), allowed);
    }

    /// Whatever the initial sizes: steps of growing and shrinking, with pods becoming available in between, end with
    /// only new pods, and no step has too many or too few.
    #[test]
    fn a_rollout_converges_within_its_bounds(bounds in some_bounds(), start in prop::collection::vec(0..20, 1..4)) {
        let mut olds: Vec<Size> = start.iter().map(|desired_replicas| size(*desired_replicas, *desired_replicas)).collect();
        let mut new = size(0, 0);
        let total = |olds: &[Size], new: Size| olds.iter().map(|old| old.desired_replicas).sum::<i32>() + new.desired_replicas;
        let max_pods = total(&olds, new).max(bounds.max_pods());
        for _ in 0..400 {
            let mut floor = olds.iter().map(|old| old.available).sum::<i32>() + new.available;
            floor = floor.min(bounds.min_available());
            new.desired_replicas = grown(bounds, new.desired_replicas, total(&olds, new));
            for (old, size) in olds.clone().iter().zip(shrunk(bounds, &olds, new)).enumerate().map(|(i, (_, size))| (i, size)) {
                olds[old].desired_replicas = size;
                olds[old].available = olds[old].available.min(size);
            }
            let available = olds.iter().map(|old| old.available).sum::<i32>() + new.available;
            prop_assert!(available >= floor);
            prop_assert!(total(&olds, new) <= max_pods);
            new.available = new.desired_replicas;
        }
        prop_assert_eq!(new.desired_replicas, bounds.replicas);
        prop_assert_eq!(total(&olds, new), bounds.replicas);
    }
}
