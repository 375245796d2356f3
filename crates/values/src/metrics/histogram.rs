//! Histograms with fixed bounds: a plain one, and one that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Buckets;

/// A histogram: counts of values by their upper bound, and their sum. Histograms with the same bounds can be added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bounds, ascending.
    bounds: &'static [f64],
    /// One count per bound, and one for values above all of them.
    counts: Box<[u64]>,
    sum: f64,
}

/// A histogram that threads observe without a lock.
#[derive(Debug)]
pub struct AtomicHistogram {
    bounds: &'static [f64],
    /// How many units of the sum, which is a whole number, are one unit of the values.
    sum_scale: f64,
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

// === impl Histogram ===

impl Histogram {
    /// A histogram with these ascending upper bounds.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1].into(),
            sum: 0.0,
        }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        self.counts[bucket(self.bounds, value)] += 1;
        self.sum += value;
    }

    /// Adds another histogram with the same bounds.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.sum += other.sum;
    }

    /// The same without its `skipped` lowest bounds.
    #[must_use]
    pub fn without_lowest(&self, skipped: usize) -> Self {
        let mut counts: Box<[u64]> = self.counts[skipped..].into();
        counts[0] += self.counts[..skipped].iter().sum::<u64>();
        Self {
            bounds: &self.bounds[skipped..],
            counts,
            sum: self.sum,
        }
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// For each bound how many values were not above it.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut total = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            total += count;
            (*bound, total)
        })
    }

    /// The buckets, for the text encoder.
    pub fn buckets(&self) -> Buckets<'_> {
        Buckets {
            bounds: self.bounds,
            counts: &self.counts,
            sum: self.sum,
        }
    }
}

// === impl AtomicHistogram ===

impl AtomicHistogram {
    /// A histogram with these ascending upper bounds. `sum_scale` is the precision of the sum: 1e9 for seconds that are
    /// added up as nanoseconds.
    pub fn new(bounds: &'static [f64], sum_scale: f64) -> Self {
        Self {
            bounds,
            sum_scale,
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts a value, which is not negative.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a negative value counts as zero, and one beyond 2^64 units as that"
    )]
    pub fn observe(&self, value: f64) {
        self.counts[bucket(self.bounds, value)].fetch_add(1, Ordering::Relaxed);
        let units = (value * self.sum_scale).round() as u64;
        self.sum.fetch_add(units, Ordering::Relaxed);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        let counts = self.counts.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The histogram as it is now.
    #[allow(clippy::cast_precision_loss, reason = "a sum of metrics need not be exact")]
    pub fn snapshot(&self) -> Histogram {
        let counts = self.counts.iter();
        Histogram {
            bounds: self.bounds,
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / self.sum_scale,
        }
    }
}

/// The index of the first bound that a value is not above.
fn bucket(bounds: &[f64], value: f64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 2] = [1.0, 2.0];
    const VALUES: [f64; 4] = [0.5, 1.0, 1.5, 9.0];

    fn histogram() -> Histogram {
        let mut histogram = Histogram::new(&BOUNDS);
        VALUES.iter().for_each(|value| histogram.observe(*value));
        histogram
    }

    #[test]
    fn a_value_falls_below_the_first_bound_that_holds_it() {
        let histogram = histogram();
        assert_eq!(histogram.buckets().counts, [2, 1, 1]);
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 2), (2.0, 3)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 12.0));
    }

    #[test]
    fn threads_count_the_same() {
        let shared = AtomicHistogram::new(&BOUNDS, 1e3);
        VALUES.iter().for_each(|value| shared.observe(*value));
        assert_eq!(shared.snapshot(), histogram());
        assert_eq!(shared.count(), 4);
    }

    #[test]
    fn histograms_are_added_up_and_lose_their_lowest_bounds() {
        let mut twice = histogram();
        twice.add(&histogram());
        assert_eq!(
            (twice.buckets().counts, twice.sum()),
            ([4, 2, 2].as_slice(), 24.0)
        );
        let short = histogram().without_lowest(1);
        assert_eq!(
            (short.buckets().bounds, short.buckets().counts),
            ([2.0].as_slice(), [3, 1].as_slice())
        );
    }
}
