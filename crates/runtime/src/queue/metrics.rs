//! What a queue says about itself, under the names that client-go gave these figures.

use jiff::SignedDuration;

/// The figures of one queue at one moment.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Items that are ready, and items that wait for their time.
    pub depth: usize,
    /// Items that wait for their time.
    pub delayed: usize,
    /// How often an item that was not dirty was added.
    pub adds: u64,
    /// How often an item failed and came back.
    pub retries: u64,
    /// How long items were dirty before a worker took them.
    pub queue_duration: Histogram,
    /// How long workers had them.
    pub work_duration: Histogram,
    /// How many items are in work, how long they have been altogether and how long the longest has been, in seconds.
    pub processing: usize,
    /// How long these have been in work altogether, in seconds.
    pub unfinished_work: f64,
    /// How long the longest of them has been, in seconds.
    pub longest_running: f64,
}

/// Durations in decades from 10 ns to 10 s.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// The last is for what is longer than every bound.
    counts: [u64; Histogram::BOUNDS.len() + 1],
    sum: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) waited: Histogram,
    pub(crate) worked: Histogram,
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
            queue_duration: self.waited.clone(),
            work_duration: self.worked.clone(),
            processing: seconds.clone().count(),
            unfinished_work: seconds.clone().sum(),
            longest_running: seconds.fold(0.0, f64::max),
        }
    }
}
