//! Metrics of the requests of one FlowSchema on one priority level. They change under the level's lock.

use std::time::Duration;

use setpoint_values::metrics::Histogram;

use super::queue_set::RejectReason;

/// Upper bounds of waiting and execution times, in seconds.
const DURATIONS: [f64; 13] = [
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];
const QUEUE_LENGTHS: [f64; 8] = [0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const WATCH_COUNTS: [f64; 6] = [0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];
const ESTIMATED_SEATS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];

/// Counters and histograms of one FlowSchema.
#[derive(Debug)]
pub(crate) struct FlowMetrics {
    name: String,
    pub dispatched: u64,
    pub rejected: Rejections,
    pub unaccommodated: u64,
    /// Of requests that were executed, and of those that were not.
    pub waited: [Histogram; 2],
    /// Of regular requests, and of the initialization of watches.
    pub execution: [Histogram; 2],
    pub queue_length: Histogram,
    pub watch_count: Histogram,
    pub estimated_seats: Histogram,
}

/// Numbers of rejected requests by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rejections {
    pub concurrency_limit: u64,
    pub queue_full: u64,
    pub timed_out: u64,
}

impl FlowMetrics {
    pub(crate) fn new(name: &str) -> Self {
        let durations = || [Histogram::new(&DURATIONS), Histogram::new(&DURATIONS)];
        Self {
            name: name.to_owned(),
            dispatched: 0,
            rejected: Rejections::default(),
            unaccommodated: 0,
            waited: durations(),
            execution: durations(),
            queue_length: Histogram::new(&QUEUE_LENGTHS),
            watch_count: Histogram::new(&WATCH_COUNTS),
            estimated_seats: Histogram::new(&ESTIMATED_SEATS),
        }
    }

    /// The name of the FlowSchema.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn estimated(&mut self, seats: usize, watch_count: Option<usize>) {
        self.estimated_seats.observe(float(seats));
        if let Some(watch_count) = watch_count {
            self.watch_count.observe(float(watch_count));
        }
    }

    pub(super) fn enqueued(&mut self, queue_length: usize) {
        self.queue_length.observe(float(queue_length));
    }

    /// Counts a request that executes; exempt ones have no waiting time.
    pub(super) fn dispatched(&mut self, waited: Option<Duration>) {
        self.dispatched += 1;
        if let Some(waited) = waited {
            self.waited[0].observe(waited.as_secs_f64());
        }
    }

    pub(super) fn executed(&mut self, took: Duration, is_watch: bool) {
        self.execution[usize::from(is_watch)].observe(took.as_secs_f64());
    }

    pub(super) fn rejected(&mut self, reason: RejectReason, waited: Duration) {
        let count = match reason {
            RejectReason::ConcurrencyLimit => &mut self.rejected.concurrency_limit,
            RejectReason::QueueFull => &mut self.rejected.queue_full,
            RejectReason::TimedOut => &mut self.rejected.timed_out,
        };
        *count += 1;
        self.waited[1].observe(waited.as_secs_f64());
    }

    pub(super) fn unaccommodated(&mut self) {
        self.unaccommodated += 1;
    }
}

#[allow(clippy::cast_precision_loss, reason = "the numbers are small")]
fn float(number: usize) -> f64 {
    number as f64
}
