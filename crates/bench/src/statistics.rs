//! Percentiles of latencies and medians of rounds.

use std::time::Duration;

use hdrhistogram::Histogram;

/// One minute: whatever takes longer counts as this.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Latencies of many operations, kept with three significant digits.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NANOS, 3).expect("the bounds are constant and ordered"))
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NANOS);
        self.0.saturating_record(nanos.clamp(1, LONGEST_NANOS));
    }

    pub(crate) fn merge(&mut self, other: &Latencies) {
        self.0
            .add(&other.0)
            .expect("all histograms here share their bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn p50_us(&self) -> f64 {
        self.quantile_us(0.50)
    }

    pub(crate) fn p99_us(&self) -> f64 {
        self.quantile_us(0.99)
    }

    fn quantile_us(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// The middle of several rounds; with an even number, the mean of the middle two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// `None` when no round was run.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Self { low, median, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_median(values: &[f64], expected: Option<f64>) {
        assert_eq!(
            Spread::of(values.iter().copied()).map(|spread| spread.median),
            expected
        );
    }

    #[test]
    fn the_median_of_an_odd_number_is_the_middle_one() {
        check_median(&[3.0, 1.0, 2.0], Some(2.0));
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        check_median(&[4.0, 1.0, 2.0, 3.0], Some(2.5));
    }

    #[test]
    fn no_rounds_have_no_median() {
        check_median(&[], None);
    }

    #[test]
    fn percentiles_are_within_the_histogram_precision() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|n| latencies.record(Duration::from_micros(n)));
        assert_eq!(latencies.count(), 1000);
        assert!((latencies.p50_us() - 500.0).abs() < 2.0, "{}", latencies.p50_us());
        assert!((latencies.p99_us() - 990.0).abs() < 2.0, "{}", latencies.p99_us());
    }
}
