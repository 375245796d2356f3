//! Values counted by size, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many values fell between the bounds, `N` being one more than there are bounds.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    counts: [AtomicU64; N],
    /// The sum, in a unit small enough to be whole.
    sum: AtomicU64,
}

/// What a histogram held at one time; several can be added up.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counted {
    pub counts: Vec<u64>,
    pub sum: u64,
}

impl<const N: usize> Histogram<N> {
    /// Counts a value, in the unit of the bounds, which rise. `part` is the same value in the unit of the sum.
    pub(crate) fn observe(&self, bounds: &[f64], value: f64, part: u64) {
        let at = bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(bounds.len());
        self.counts[at.min(N - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(part, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> Counted {
        Counted {
            counts: self
                .counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }

    /// How many values were counted.
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

// === impl Counted ===

impl Counted {
    /// Adds another of the same bounds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.sum += other.sum;
    }

    /// The same without its `few` lowest bounds.
    pub(crate) fn coarser(&self, few: usize) -> Self {
        let mut counts = self.counts[few..].to_vec();
        counts[0] += self.counts[..few].iter().sum::<u64>();
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
        let counted = histogram.counted();
        assert_eq!(
            (counted.counts.as_slice(), counted.sum, histogram.total()),
            ([2, 1, 1].as_slice(), 40, 4)
        );
        assert_eq!(counted.coarser(1).counts, [3, 1]);
        let mut twice = Counted::default();
        twice.add(&counted);
        twice.add(&counted);
        assert_eq!((twice.counts.as_slice(), twice.sum), ([4, 2, 2].as_slice(), 80));
    }
}
