//! Borrowing among priority levels: the current concurrency limit of each level, by its recent demand.
//!
//! A level keeps at least its lower limit, and as much of its nominal limit as it used in the last period. The rest of
//! the seats goes to all levels in proportion to their smoothed demand, up to the upper limit of each. The limits are
//! computed every ten seconds and after a change of the configuration, as `updateBorrowingLocked` in Kubernetes'
//! `apiserver/pkg/util/flowcontrol/apf_controller.go` does.

use super::allocation::{Class, allocate};
use super::seat_demand::SeatDemandStats;

/// The configured limits of a level, in seats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub nominal: usize,
    /// The nominal limit without what the level lends.
    pub lower: usize,
    /// The nominal limit and what the level may borrow.
    pub upper: usize,
}

/// A level as the adjustment sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelDemand {
    /// An exempt level has no limit; what it uses is not left for the others.
    pub is_exempt: bool,
    pub limits: Limits,
    pub stats: SeatDemandStats,
    /// The limit up to now.
    pub current: usize,
}

/// The limits from now on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Adjustment {
    /// By level.
    pub levels: Vec<LevelAdjustment>,
    /// 0 if no seat is left to be divided.
    pub fair_fraction: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LevelAdjustment {
    /// The seats that the level should have by its demand.
    pub target: f64,
    pub limit: usize,
}

/// Computes the current limits of all levels.
pub(crate) fn adjust(levels: &[LevelDemand]) -> Adjustment {
    let nominal_sum: usize = levels.iter().map(|level| level.limits.nominal).sum();
    let used_by_exempt: usize = exempt(levels).map(LevelDemand::minimum).sum();
    let lower_sum: usize = limited(levels).map(|level| level.limits.lower).sum();
    let minimum_sum: usize = limited(levels).map(LevelDemand::minimum).sum();
    let left = nominal_sum.saturating_sub(used_by_exempt);
    if left <= minimum_sum {
        let share = match left.checked_sub(lower_sum) {
            Some(above) if above > 0 => float(above) / float(minimum_sum - lower_sum),
            _ => 0.0,
        };
        return adjustment(levels, 0.0, |_, level| {
            let above = float(level.minimum() - level.limits.lower) * share;
            level.limits.lower + seats(above)
        });
    }
    let classes: Vec<Class> = limited(levels).map(LevelDemand::class).collect();
    let allocation = allocate(float(nominal_sum), &classes);
    let fair_fraction = allocation.as_ref().map_or(0.0, |found| found.fair_fraction);
    adjustment(levels, fair_fraction, |at, level| {
        allocation
            .as_ref()
            .map_or(level.current, |found| seats(found.parts[at]))
    })
}

/// The adjustment in which a limited level gets what `limit_of` returns for it and its index among the limited ones.
fn adjustment(
    levels: &[LevelDemand],
    fair_fraction: f64,
    limit_of: impl Fn(usize, &LevelDemand) -> usize,
) -> Adjustment {
    let mut index = 0;
    let levels = levels.iter().map(|level| LevelAdjustment {
        target: level.class().target,
        limit: if level.is_exempt {
            level.minimum()
        } else {
            index += 1;
            limit_of(index - 1, level)
        },
    });
    Adjustment {
        levels: levels.collect(),
        fair_fraction,
    }
}

fn exempt(levels: &[LevelDemand]) -> impl Iterator<Item = &LevelDemand> {
    levels.iter().filter(|level| level.is_exempt)
}

fn limited(levels: &[LevelDemand]) -> impl Iterator<Item = &LevelDemand> {
    levels.iter().filter(|level| !level.is_exempt)
}

impl LevelDemand {
    /// The least that the level keeps, given what it used: no more than its nominal limit, unless it is exempt.
    fn minimum(&self) -> usize {
        let used = seats(self.stats.high_watermark);
        let kept = if self.is_exempt {
            used
        } else {
            used.min(self.limits.nominal)
        };
        kept.max(self.limits.lower)
    }

    fn class(&self) -> Class {
        let lower_bound = float(self.minimum());
        Class {
            target: self.stats.smoothed.max(lower_bound),
            lower_bound,
            upper_bound: float(self.limits.upper),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a number of seats is small")]
fn float(seats: usize) -> f64 {
    seats as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of seats is small and not negative"
)]
fn seats(number: f64) -> usize {
    number.round() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(nominal: usize, lower: usize, upper: usize, used: f64) -> LevelDemand {
        LevelDemand {
            is_exempt: false,
            limits: Limits {
                nominal,
                lower,
                upper,
            },
            stats: SeatDemandStats {
                high_watermark: used,
                smoothed: used,
                ..SeatDemandStats::default()
            },
            current: nominal,
        }
    }

    fn exempt(used: f64) -> LevelDemand {
        LevelDemand {
            is_exempt: true,
            ..level(0, 0, 0, used)
        }
    }

    #[track_caller]
    fn check(levels: &[LevelDemand], expected: &[usize]) {
        let adjusted = adjust(levels);
        let limits: Vec<usize> = adjusted.levels.iter().map(|level| level.limit).collect();
        assert_eq!(limits, expected);
    }

    #[test]
    fn a_busy_level_borrows_what_an_idle_one_lends() {
        check(&[level(50, 25, 650, 200.0), level(50, 25, 650, 0.0)], &[75, 25]);
    }

    #[test]
    fn a_level_that_is_used_again_gets_its_own_seats_back() {
        check(&[level(50, 25, 650, 200.0), level(50, 25, 650, 60.0)], &[50, 50]);
    }

    #[test]
    fn a_level_borrows_no_more_than_it_may() {
        check(&[level(50, 25, 60, 200.0), level(50, 25, 650, 0.0)], &[60, 40]);
    }

    #[test]
    fn a_level_that_lends_nothing_keeps_its_seats() {
        check(&[level(50, 50, 650, 0.0), level(50, 25, 650, 500.0)], &[50, 50]);
    }

    #[test]
    fn idle_levels_divide_all_seats() {
        check(&[level(60, 30, 650, 0.0), level(40, 20, 650, 0.0)], &[60, 40]);
    }

    #[test]
    fn what_exempt_requests_use_is_missing_for_the_others() {
        check(
            &[exempt(90.0), level(50, 10, 650, 50.0), level(50, 10, 650, 50.0)],
            &[90, 10, 10],
        );
        check(
            &[exempt(40.0), level(50, 10, 650, 50.0), level(50, 10, 650, 50.0)],
            &[40, 30, 30],
        );
    }
}
