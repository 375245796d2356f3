//! A lock-free histogram.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values per bucket; `N` is the number of bounds plus one.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    /// The sum, in a unit small enough to be whole.
    sum: AtomicU64,
}

/// The content of a histogram at one time. Snapshots can be added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HistogramSnapshot {
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl<const N: usize> Histogram<N> {
    /// Counts a value in the unit of the ascending bounds. `in_sum_unit` is the same value in the unit of the sum.
    pub(crate) fn observe(&self, bounds: &[f64], value: f64, in_sum_unit: u64) {
        let at = bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(bounds.len());
        self.counts[at.min(N - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(in_sum_unit, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }

    /// The number of values.
    pub(crate) fn total(&self) -> u64 {
        self.counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
        }
    }
}

// === impl HistogramSnapshot ===

impl HistogramSnapshot {
    /// Adds another snapshot with the same bounds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.sum += other.sum;
    }

    /// The same without its `count` lowest bounds.
    pub(crate) fn without_lowest(&self, count: usize) -> Self {
        let mut counts = self.counts[count..].to_vec();
        counts[0] += self.counts[..count].iter().sum::<u64>();
        Self {
            counts,
            sum: self.sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_below_the_first_bound_that_holds_it() {
        let histogram = Histogram::<3>::default();
        for value in [0.5, 1.0, 1.5, 9.0] {
            histogram.observe(&[1.0, 2.0], value, 10);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(
            (snapshot.counts.as_slice(), snapshot.sum, histogram.total()),
            ([2, 1, 1].as_slice(), 40, 4)
        );
        assert_eq!(snapshot.without_lowest(1).counts, [3, 1]);
        let mut twice = HistogramSnapshot::default();
        twice.add(&snapshot);
        twice.add(&snapshot);
        assert_eq!((twice.counts.as_slice(), twice.sum), ([4, 2, 2].as_slice(), 80));
    }
}
