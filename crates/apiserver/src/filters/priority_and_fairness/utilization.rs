//! Utilization over time: histograms of how long a ratio had which value.
//!
//! Upstream: `timing_ratio_histogram.go` in `apiserver/pkg/util/flowcontrol/metrics`. A sample of these histograms is a
//! nanosecond.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::Clock;
use setpoint_values::metrics::Buckets;

use super::queue_set::{LimitResponse, Totals};

/// Phases of a request, as the metrics label them.
pub(super) const PHASES: [&str; 2] = ["waiting", "executing"];
/// Kinds of requests, as the metrics label them.
pub(super) const REQUEST_KINDS: [&str; 2] = ["readOnly", "mutating"];

const SEAT_BOUNDS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const REQUEST_BOUNDS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const DEMAND_BOUNDS: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
const READ_WRITE_BOUNDS: &[f64] = &[
    0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0,
];

/// A histogram of a ratio whose samples are nanoseconds. It changes several times in every request, so that a change is a
/// few operations on integers.
#[derive(Debug)]
pub(super) struct TimingRatioHistogram {
    bounds: &'static [f64],
    /// Nanoseconds by bound, and those above all of them.
    nanoseconds: Box<[u64]>,
    /// The ratio, added up over all nanoseconds until the denominator changed.
    sum: f64,
    /// The numerator, added up over all nanoseconds since then.
    numerators: u128,
    numerator: usize,
    denominator: usize,
    /// The bucket of the ratio since the last change.
    bucket: usize,
    /// In nanoseconds since 1970.
    changed: i64,
}

/// The utilization of a priority level.
#[derive(Debug)]
pub(crate) struct LevelUtilization {
    /// Waiting requests by the capacity of the queues, executing requests by the nominal seats.
    pub(super) requests: [TimingRatioHistogram; 2],
    /// Seats in use by the nominal seats.
    pub(super) seats: TimingRatioHistogram,
    /// Seats that could be used by the nominal seats.
    pub(super) demand: TimingRatioHistogram,
}

/// Requests of all levels by phase and by kind, relative to what the levels can take together.
#[derive(Debug)]
pub(super) struct ReadWriteUtilization {
    clock: Arc<dyn Clock>,
    /// By phase, then by kind.
    histograms: Mutex<[[TimingRatioHistogram; 2]; 2]>,
}

/// The phase that a request is counted in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    Waiting,
    Executing,
}

/// A request in a phase, until dropped.
#[derive(Debug)]
pub(crate) struct CountedRequest {
    utilization: Arc<ReadWriteUtilization>,
    phase: Phase,
    is_mutating: bool,
    has_ended: bool,
}

// === impl TimingRatioHistogram ===

impl TimingRatioHistogram {
    fn new(bounds: &'static [f64], now: Timestamp) -> Self {
        Self {
            bounds,
            nanoseconds: vec![0; bounds.len() + 1].into(),
            sum: 0.0,
            numerators: 0,
            numerator: 0,
            denominator: 1,
            bucket: 0,
            changed: nanoseconds(now),
        }
    }

    /// Sets the numerator from now on, in nanoseconds since 1970.
    fn set(&mut self, now: i64, numerator: usize) {
        if self.numerator != numerator {
            self.advance(now);
            self.numerator = numerator;
            self.find_bucket();
        }
    }

    /// Sets the denominator from now on; one of zero counts as one.
    fn set_denominator(&mut self, now: Timestamp, denominator: usize) {
        self.advance(nanoseconds(now));
        self.add_numerators();
        self.denominator = denominator.max(1);
        self.find_bucket();
    }

    #[allow(clippy::cast_precision_loss, reason = "a number of requests is small")]
    fn find_bucket(&mut self) {
        let ratio = self.numerator as f64 / self.denominator as f64;
        self.bucket = self.bounds.iter().take_while(|bound| ratio > **bound).count();
    }

    /// Counts the time since the last change.
    fn advance(&mut self, now: i64) {
        let elapsed = u64::try_from(now - self.changed).unwrap_or(0);
        self.changed = now.max(self.changed);
        self.nanoseconds[self.bucket] += elapsed;
        self.numerators += self.numerator as u128 * u128::from(elapsed);
    }

    /// Adds what was counted with the current denominator to the sum.
    #[allow(
        clippy::cast_precision_loss,
        reason = "a sum of nanoseconds is as exact as a float"
    )]
    fn add_numerators(&mut self) {
        self.sum += std::mem::take(&mut self.numerators) as f64 / self.denominator as f64;
    }

    /// The buckets with the time until now.
    pub(super) fn buckets(&mut self, now: Timestamp) -> Buckets<'_> {
        self.advance(nanoseconds(now));
        self.add_numerators();
        Buckets {
            bounds: self.bounds,
            counts: &self.nanoseconds,
            sum: self.sum,
        }
    }
}

/// Nanoseconds since 1970: until the year 2262.
fn nanoseconds(now: Timestamp) -> i64 {
    now.as_second()
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(now.subsec_nanosecond()))
}

// === impl LevelUtilization ===

impl LevelUtilization {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            requests: [(); 2].map(|()| TimingRatioHistogram::new(REQUEST_BOUNDS, now)),
            seats: TimingRatioHistogram::new(SEAT_BOUNDS, now),
            demand: TimingRatioHistogram::new(DEMAND_BOUNDS, now),
        }
    }

    /// Sets what the level can take from now on.
    pub(super) fn set_limits(&mut self, now: Timestamp, nominal: usize, response: LimitResponse) {
        let [waiting, executing] = &mut self.requests;
        waiting.set_denominator(now, queue_capacity(response));
        for histogram in [executing, &mut self.seats, &mut self.demand] {
            histogram.set_denominator(now, nominal);
        }
    }

    /// Sets what the level is used for from now on.
    pub(super) fn observe(&mut self, now: Timestamp, totals: &Totals) {
        let now = nanoseconds(now);
        let [waiting, executing] = &mut self.requests;
        waiting.set(now, totals.waiting);
        executing.set(now, totals.executing);
        self.seats.set(now, totals.seats_in_use);
        self.demand.set(now, totals.seats_in_use + totals.seats_waiting);
    }
}

/// The requests that may wait.
pub(super) fn queue_capacity(response: LimitResponse) -> usize {
    match response {
        LimitResponse::Queue(queuing) => queuing.queues * queuing.queue_length_limit,
        LimitResponse::Exempt | LimitResponse::Reject => 0,
    }
}

// === impl ReadWriteUtilization ===

impl ReadWriteUtilization {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let now = clock.now();
        let by_kind = || [(); 2].map(|()| TimingRatioHistogram::new(READ_WRITE_BOUNDS, now));
        Arc::new(Self {
            histograms: Mutex::new([by_kind(), by_kind()]),
            clock,
        })
    }

    /// Sets how many requests may wait and execute in all levels together.
    pub(super) fn set_limits(&self, waiting: usize, executing: usize) {
        let now = self.clock.now();
        for (histograms, limit) in self.histograms.lock().iter_mut().zip([waiting, executing]) {
            histograms
                .iter_mut()
                .for_each(|one| one.set_denominator(now, limit));
        }
    }

    /// Counts a request in a phase, from now on.
    pub(super) fn enter(self: &Arc<Self>, now: Timestamp, phase: Phase, is_mutating: bool) -> CountedRequest {
        self.add(now, phase, is_mutating, 1);
        CountedRequest {
            utilization: self.clone(),
            phase,
            is_mutating,
            has_ended: false,
        }
    }

    fn add(&self, now: Timestamp, phase: Phase, is_mutating: bool, requests: isize) {
        let now = nanoseconds(now);
        let histogram = &mut self.histograms.lock()[phase as usize][usize::from(is_mutating)];
        histogram.set(now, histogram.numerator.saturating_add_signed(requests));
    }

    /// Calls `write` with the labels of each histogram and its buckets.
    pub(super) fn visit(&self, mut write: impl FnMut([(&str, &str); 2], &Buckets<'_>)) {
        let now = self.clock.now();
        let mut histograms = self.histograms.lock();
        for (phase, by_kind) in PHASES.into_iter().zip(histograms.iter_mut()) {
            for (kind, histogram) in REQUEST_KINDS.into_iter().zip(by_kind) {
                write(
                    [("phase", phase), ("request_kind", kind)],
                    &histogram.buckets(now),
                );
            }
        }
    }
}

// === impl CountedRequest ===

impl CountedRequest {
    /// Ends the phase at this time.
    pub(super) fn end(&mut self, now: Timestamp) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.utilization.add(now, self.phase, self.is_mutating, -1);
        }
    }
}

impl Drop for CountedRequest {
    fn drop(&mut self) {
        if !self.has_ended {
            self.end(self.utilization.clock.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(nanoseconds: u64) -> Timestamp {
        Timestamp::UNIX_EPOCH + Duration::from_nanos(nanoseconds)
    }

    #[test]
    fn each_nanosecond_counts_for_the_ratio_that_it_had() {
        let mut histogram = TimingRatioHistogram::new(&[0.0, 0.5, 1.0], at(0));
        histogram.set_denominator(at(0), 4);
        histogram.set(10, 2);
        histogram.set(30, 3);
        histogram.set_denominator(at(35), 2);
        let buckets = histogram.buckets(at(36));
        assert_eq!(buckets.counts, [10, 20, 5, 1]);
        let sum = 20.0 * 0.5 + 5.0 * 0.75 + 1.5;
        assert!((buckets.sum - sum).abs() < 1e-9, "{} is not {sum}", buckets.sum);
    }

    #[test]
    fn a_clock_that_goes_back_adds_nothing() {
        let mut histogram = TimingRatioHistogram::new(&[0.0], at(100));
        histogram.set(50, 1);
        assert_eq!(histogram.buckets(at(100)).counts, [0, 0]);
    }
}
