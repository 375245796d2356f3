//! Allocation of a total among classes in proportion to their targets, within the bounds of each.
//!
//! One example: 30 seats, targets 10 and 20, and the second may have at most 15. In proportion to the targets it would
//! be 10 and 20; the second stops at its bound, and the first gets the rest: 15 and 15. The factor, here 1.5 for the
//! class that no bound holds, is the fair fraction.
//!
//! The problem is that of `computeConcurrencyAllocation` in Kubernetes' `apiserver/pkg/util/flowcontrol/conc_alloc.go`.
//! There the bounds are sorted and passed one after the other; here the factor is searched between two bounds.

/// A class to which a part of the total is allocated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Class {
    /// At least the lower bound.
    pub target: f64,
    pub lower_bound: f64,
    /// At least the lower bound.
    pub upper_bound: f64,
}

/// The parts of all classes, in their order, and the fair fraction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Allocation {
    pub parts: Vec<f64>,
    pub fair_fraction: f64,
}

/// Targets below this count as this.
const MIN_TARGET: f64 = 0.001;
const EPSILON: f64 = 1e-7;

/// Allocates the total. `None` if the bounds do not allow it.
pub(crate) fn allocate(total: f64, classes: &[Class]) -> Option<Allocation> {
    let lowest: f64 = classes.iter().map(|class| class.lower_bound).sum();
    let highest: f64 = classes.iter().map(|class| class.upper_bound).sum();
    if lowest - total > EPSILON || total - highest > EPSILON {
        return None;
    }
    let fair_fraction = fair_fraction(total, classes);
    let parts = classes.iter().map(|class| class.part(fair_fraction)).collect();
    Some(Allocation { parts, fair_fraction })
}

/// The factor at which the parts add up to the total. The sum is linear in the factor between two bounds, and it never
/// falls as the factor rises.
fn fair_fraction(total: f64, classes: &[Class]) -> f64 {
    let sum_at = |factor: f64| -> f64 { classes.iter().map(|class| class.part(factor)).sum() };
    let mut bounds: Vec<f64> = classes
        .iter()
        .flat_map(|class| {
            [
                class.lower_bound / class.target(),
                class.upper_bound / class.target(),
            ]
        })
        .collect();
    bounds.sort_unstable_by(f64::total_cmp);
    let first_enough = bounds.partition_point(|bound| sum_at(*bound) < total - EPSILON);
    let Some(&above) = bounds.get(first_enough) else {
        return bounds.last().copied().unwrap_or_default();
    };
    let Some(&below) = first_enough.checked_sub(1).and_then(|at| bounds.get(at)) else {
        return above;
    };
    let (sum_below, sum_above) = (sum_at(below), sum_at(above));
    if sum_above - sum_below <= EPSILON {
        return below;
    }
    below + (above - below) * (total - sum_below) / (sum_above - sum_below)
}

impl Class {
    fn target(&self) -> f64 {
        self.target.max(MIN_TARGET)
    }

    fn part(&self, factor: f64) -> f64 {
        (factor * self.target()).clamp(self.lower_bound, self.upper_bound.max(self.lower_bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(target: f64, lower_bound: f64, upper_bound: f64) -> Class {
        Class {
            target,
            lower_bound,
            upper_bound,
        }
    }

    #[track_caller]
    fn check(total: f64, classes: &[Class], expected: Option<(&[f64], f64)>) {
        let allocation = allocate(total, classes);
        let close = |one: f64, other: f64| (one - other).abs() < 1e-5;
        let same = match (&allocation, expected) {
            (None, None) => true,
            (Some(allocation), Some((parts, fraction))) => {
                let pairs = allocation.parts.iter().zip(parts);
                allocation.parts.len() == parts.len()
                    && pairs.into_iter().all(|(one, other)| close(*one, *other))
                    && close(allocation.fair_fraction, fraction)
            }
            _ => false,
        };
        assert!(same, "{allocation:?} is not {expected:?}");
    }

    #[test]
    fn without_bounds_the_parts_are_proportional() {
        check(
            30.0,
            &[class(10.0, 0.0, 100.0), class(20.0, 0.0, 100.0)],
            Some((&[10.0, 20.0], 1.0)),
        );
        check(
            60.0,
            &[class(10.0, 0.0, 100.0), class(20.0, 0.0, 100.0)],
            Some((&[20.0, 40.0], 2.0)),
        );
    }

    #[test]
    fn what_a_bound_withholds_goes_to_the_others() {
        check(
            30.0,
            &[class(10.0, 0.0, 100.0), class(20.0, 0.0, 15.0)],
            Some((&[15.0, 15.0], 1.5)),
        );
        check(
            20.0,
            &[class(10.0, 8.0, 100.0), class(30.0, 0.0, 100.0)],
            Some((&[8.0, 12.0], 0.4)),
        );
    }

    #[test]
    fn a_total_at_the_bounds_is_the_bounds() {
        check(
            12.0,
            &[class(10.0, 5.0, 20.0), class(10.0, 7.0, 20.0)],
            Some((&[5.0, 7.0], 0.5)),
        );
        check(
            40.0,
            &[class(10.0, 5.0, 20.0), class(10.0, 7.0, 20.0)],
            Some((&[20.0, 20.0], 2.0)),
        );
    }

    #[test]
    fn bounds_that_exclude_the_total_have_no_allocation() {
        check(1.0, &[class(10.0, 5.0, 20.0)], None);
        check(21.0, &[class(10.0, 5.0, 20.0)], None);
        check(1.0, &[], None);
    }

    #[test]
    fn a_class_without_a_target_gets_what_is_left() {
        check(
            10.0,
            &[class(0.0, 0.0, 100.0), class(4.0, 4.0, 5.0)],
            Some((&[5.0, 5.0], 5000.0)),
        );
    }
}
