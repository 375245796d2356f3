//! Metrics of a queue, by client-go's names.

use jiff::SignedDuration;

/// The metrics of one queue at one moment.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Items that are ready.
    pub depth: usize,
    /// Delayed items.
    pub delayed: usize,
    /// The number of adds of items that were not dirty.
    pub adds: u64,
    /// The number of rate-limited retries.
    pub retries: u64,
    /// How long items were dirty before a worker took them.
    pub queue_duration: Histogram,
    /// How long workers had them.
    pub work_duration: Histogram,
    /// Items in process.
    pub processing: usize,
    /// The total time these have been in process, in seconds.
    pub unfinished_work: f64,
    /// The time the longest of them has been in process, in seconds.
    pub longest_running: f64,
}

/// Durations in decades from 10 ns to 10 s.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// The last bucket is for durations longer than every bound.
    counts: [u64; Histogram::BOUNDS.len() + 1],
    sum: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
}

// === impl Histogram ===

impl Histogram {
    /// Upper bounds in seconds.
    pub const BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

    pub(crate) fn observe(&mut self, duration: SignedDuration) {
        let seconds = duration.as_secs_f64();
        let bucket = Self::BOUNDS.partition_point(|bound| *bound < seconds);
        self.counts[bucket] += 1;
        self.sum += seconds;
    }

    /// How many durations there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All durations together, in seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// For each bound how many were not longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut total = 0;
        Self::BOUNDS.iter().zip(self.counts).map(move |(bound, count)| {
            total += count;
            (*bound, total)
        })
    }
}

// === impl Counters ===

impl Counters {
    pub(crate) fn metrics(
        &self,
        depth: usize,
        delayed: usize,
        running: impl Iterator<Item = SignedDuration> + Clone,
    ) -> Metrics {
        let seconds = running.map(|duration| duration.as_secs_f64());
        Metrics {
            depth,
            delayed,
            adds: self.adds,
            retries: self.retries,
            queue_duration: self.queue_duration.clone(),
            work_duration: self.work_duration.clone(),
            processing: seconds.clone().count(),
            unfinished_work: seconds.clone().sum(),
            longest_running: seconds.fold(0.0, f64::max),
        }
    }
}
