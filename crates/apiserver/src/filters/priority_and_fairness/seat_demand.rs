//! Seat demand of a priority level: how many seats it could use, over time.
//!
//! The measures are those of Kubernetes' `apiserver/pkg/util/flowcontrol/fairqueuing/integrator.go` and of
//! `seatDemandStats` in `apf_controller.go`.

use jiff::Timestamp;

/// Decay of the smoothed demand per adjustment: its half-life is five minutes at one adjustment in ten seconds.
const SMOOTHING_COEFFICIENT: f64 = 0.977;

/// Integrates the demand over an adjustment period.
#[derive(Debug, Clone)]
pub(crate) struct SeatDemand {
    last: Timestamp,
    /// The demand since `last`.
    value: f64,
    max: f64,
    seconds: f64,
    integral: f64,
    integral_of_square: f64,
}

/// The demand of the last adjustment period, and the smoothed demand of all before.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SeatDemandStats {
    pub average: f64,
    pub standard_deviation: f64,
    pub high_watermark: f64,
    pub smoothed: f64,
}

// === impl SeatDemand ===

impl SeatDemand {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            last: now,
            value: 0.0,
            max: 0.0,
            seconds: 0.0,
            integral: 0.0,
            integral_of_square: 0.0,
        }
    }

    /// Sets the demand from now on.
    #[allow(clippy::cast_precision_loss, reason = "a number of seats is small")]
    pub(crate) fn set(&mut self, now: Timestamp, seats: usize) {
        self.advance(now);
        self.value = seats as f64;
        self.max = self.max.max(self.value);
    }

    /// Ends the period: adds it to the statistics and begins the next one.
    pub(crate) fn end_period(&mut self, now: Timestamp, stats: &mut SeatDemandStats) {
        self.advance(now);
        stats.high_watermark = self.max;
        if self.seconds > 0.0 {
            stats.average = self.integral / self.seconds;
            let variance = self.integral_of_square / self.seconds - stats.average * stats.average;
            stats.standard_deviation = variance.max(0.0).sqrt();
            let envelope = stats.average + stats.standard_deviation;
            let decayed = SMOOTHING_COEFFICIENT * stats.smoothed + (1.0 - SMOOTHING_COEFFICIENT) * envelope;
            stats.smoothed = envelope.max(decayed);
        }
        *self = Self {
            value: self.value,
            max: self.value,
            ..Self::new(now)
        };
    }

    fn advance(&mut self, now: Timestamp) {
        let seconds = now.duration_since(self.last).as_secs_f64().max(0.0);
        self.last = now.max(self.last);
        self.seconds += seconds;
        self.integral += self.value * seconds;
        self.integral_of_square += self.value * self.value * seconds;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn demand_is_weighted_by_time() {
        let (mut demand, mut stats) = (SeatDemand::new(at(0)), SeatDemandStats::default());
        demand.set(at(0), 4);
        demand.set(at(5), 0);
        demand.end_period(at(10), &mut stats);
        let expected = SeatDemandStats {
            average: 2.0,
            standard_deviation: 2.0,
            high_watermark: 4.0,
            smoothed: 4.0,
        };
        assert_eq!(stats, expected);
    }

    #[test]
    fn the_smoothed_demand_rises_at_once_and_falls_slowly() {
        let (mut demand, mut stats) = (SeatDemand::new(at(0)), SeatDemandStats::default());
        demand.set(at(0), 10);
        demand.end_period(at(10), &mut stats);
        assert!((stats.smoothed - 10.0).abs() < 1e-9);
        demand.set(at(10), 0);
        demand.end_period(at(20), &mut stats);
        assert!((stats.smoothed - 9.77).abs() < 1e-9);
        // The demand at the beginning of a period counts for its watermark.
        assert!((stats.high_watermark - 10.0).abs() < 1e-9);
        demand.end_period(at(30), &mut stats);
        assert!(stats.high_watermark.abs() < 1e-9);
    }
}
