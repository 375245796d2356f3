//! Metrics of a queue, by client-go's names.

use jiff::SignedDuration;
use setpoint_values::metrics::Histogram;

/// Upper bounds of durations in seconds: decades from 10 ns to 10 s, as client-go has them.
pub const DURATION_BOUNDS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// The metrics of one queue at one moment.
#[derive(Debug, Clone)]
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

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) adds: u64,
    pub(crate) retries: u64,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
}

// === impl Metrics ===

/// The metrics of an empty queue.
impl Default for Metrics {
    fn default() -> Self {
        Counters::default().metrics(0, 0, std::iter::empty())
    }
}

// === impl Counters ===

impl Default for Counters {
    fn default() -> Self {
        Self {
            adds: 0,
            retries: 0,
            queue_duration: Histogram::new(&DURATION_BOUNDS),
            work_duration: Histogram::new(&DURATION_BOUNDS),
        }
    }
}

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
