//! API priority and fairness: limits how many requests execute at once and queues the others fairly.
//!
//! `flow_schemas` classifies a request into a flow (by user or namespace) of a priority level. Each level has its own
//! seats and may borrow free seats of other levels. A request without a seat is queued; the flows of a level take
//! turns, so a client with a thousand requests delays its own, not those of others. A request that cannot be queued
//! gets a 429. Long-running requests such as watches take no seat.
//!
//! The levels, their shares and the lengths of the queues are the defaults of Kubernetes'
//! `apiserver/pkg/apis/flowcontrol/bootstrap/default.go`. Unlike there, every request takes one seat, and a level gets
//! its own seats back as soon as one is released rather than by a periodic adjustment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::Clock;
use tokio::sync::oneshot;

use crate::metrics::{MetricsSource, TextEncoder};

pub(crate) mod flow_schemas;
pub(crate) mod response_headers;

use flow_schemas::{FLOW_SCHEMAS, Flow, LevelIndex, PRIORITY_LEVELS};

/// Requests that execute at once: 400 read-only and 200 mutating, upstream's default flags.
pub(crate) const TOTAL_SEATS: usize = 600;
/// Maximum number of queued requests per flow.
const MAX_QUEUED_PER_FLOW: usize = 50;
/// Maximum number of queued flows per level.
const MAX_QUEUED_FLOWS: usize = 128;
/// Maximum time in the queue: a quarter of the maximum request timeout.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(15);

/// The seats and queues of all priority levels.
#[derive(Debug)]
pub(crate) struct PriorityAndFairness {
    state: Mutex<State>,
    /// By flow schema.
    metrics: [FlowSchemaMetrics; FLOW_SCHEMAS.len()],
}

#[derive(Debug)]
struct State {
    seats: usize,
    /// The sum over all levels.
    taken: usize,
    levels: [PriorityLevelState; PRIORITY_LEVELS.len()],
}

/// Seats and queue of one priority level.
#[derive(Debug, Default)]
struct PriorityLevelState {
    /// Number of its own seats.
    nominal: usize,
    taken: usize,
    /// Queued flows, the next one first. None of them is empty.
    queue: VecDeque<FlowQueue>,
}

/// Queued requests of one flow, the oldest first.
#[derive(Debug)]
struct FlowQueue {
    flow: u64,
    requests: VecDeque<oneshot::Sender<Seat>>,
}

#[derive(Debug, Default)]
struct FlowSchemaMetrics {
    dispatched: AtomicU64,
    /// By reason.
    rejected: [AtomicU64; REASONS.len()],
    executing: AtomicU64,
    queued: AtomicU64,
}

/// A seat, taken until it is dropped. Sent to a request that is cancelled, it goes to the next one.
#[derive(Debug)]
pub(crate) struct Seat {
    owner: Arc<PriorityAndFairness>,
    level: LevelIndex,
}

/// An executing request, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct ExecutingRequest {
    _seat: Option<Seat>,
    owner: Arc<PriorityAndFairness>,
    schema: usize,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// Its level has no queue.
    NoQueue,
    /// The queue is full.
    QueueFull,
    /// It was queued for too long.
    TimedOut,
}

/// The values of the `reason` metric label, by [`RejectReason`].
const REASONS: [&str; 3] = ["concurrency-limit", "queue-full", "time-out"];

// === impl PriorityAndFairness ===

impl PriorityAndFairness {
    /// Priority and fairness for a server with this many seats.
    pub(crate) fn new(seats: usize) -> Arc<Self> {
        let shares: usize = PRIORITY_LEVELS.iter().map(|level| level.shares).sum();
        let levels = PRIORITY_LEVELS.map(|level| PriorityLevelState {
            nominal: (seats * level.shares).div_ceil(shares),
            ..PriorityLevelState::default()
        });
        Arc::new(Self {
            state: Mutex::new(State {
                seats,
                taken: 0,
                levels,
            }),
            metrics: Default::default(),
        })
    }

    /// Waits for a seat for a request of this flow.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        flow: &Flow,
        clock: &dyn Clock,
    ) -> Result<ExecutingRequest, RejectReason> {
        let metrics = &self.metrics[flow.schema];
        let seat = match FLOW_SCHEMAS[flow.schema].level {
            None => None,
            Some(level) => match self.seat(level, flow, clock).await {
                Ok(seat) => Some(seat),
                Err(rejected) => {
                    metrics.rejected[rejected as usize].fetch_add(1, Ordering::Relaxed);
                    return Err(rejected);
                }
            },
        };
        metrics.dispatched.fetch_add(1, Ordering::Relaxed);
        metrics.executing.fetch_add(1, Ordering::Relaxed);
        Ok(ExecutingRequest {
            _seat: seat,
            owner: self.clone(),
            schema: flow.schema,
        })
    }

    async fn seat(
        self: &Arc<Self>,
        level: LevelIndex,
        flow: &Flow,
        clock: &dyn Clock,
    ) -> Result<Seat, RejectReason> {
        let receiver = match self.state.lock().take_or_enqueue(level, flow.key)? {
            None => return Ok(self.new_seat(level)),
            Some(receiver) => receiver,
        };
        let metrics = &self.metrics[flow.schema];
        metrics.queued.fetch_add(1, Ordering::Relaxed);
        let _dequeued = OnDrop(|| {
            metrics.queued.fetch_sub(1, Ordering::Relaxed);
        });
        tokio::select! {
            biased;
            seat = receiver => seat.map_err(|_| RejectReason::TimedOut),
            () = clock.sleep(MAX_QUEUE_WAIT) => Err(RejectReason::TimedOut),
        }
    }

    fn new_seat(self: &Arc<Self>, level: LevelIndex) -> Seat {
        Seat {
            owner: self.clone(),
            level,
        }
    }

    /// Releases a seat and passes it to the next queued request.
    fn release(self: &Arc<Self>, level: LevelIndex) {
        let next = self.state.lock().release(level);
        if let Some((level, request)) = next {
            // A cancelled request drops the seat, which passes it on again.
            drop(request.send(self.new_seat(level)));
        }
    }
}

// === impl State ===

impl State {
    fn has_seat(&self, level: LevelIndex) -> bool {
        let state = &self.levels[level];
        state.taken < state.nominal || self.taken < self.seats
    }

    fn take(&mut self, level: LevelIndex) {
        self.levels[level].taken += 1;
        self.taken += 1;
    }

    /// Takes a seat, or queues the request: then the seat comes through the channel.
    fn take_or_enqueue(
        &mut self,
        level: LevelIndex,
        flow: u64,
    ) -> Result<Option<oneshot::Receiver<Seat>>, RejectReason> {
        if self.levels[level].queue.is_empty() && self.has_seat(level) {
            self.take(level);
            return Ok(None);
        }
        if !PRIORITY_LEVELS[level].queues {
            return Err(RejectReason::NoQueue);
        }
        let queue = &mut self.levels[level].queue;
        let (sender, receiver) = oneshot::channel();
        let flows = queue.len();
        match queue.iter_mut().find(|one| one.flow == flow) {
            Some(flow_queue) => {
                flow_queue.requests.retain(|request| !request.is_closed());
                if flow_queue.requests.len() >= MAX_QUEUED_PER_FLOW {
                    return Err(RejectReason::QueueFull);
                }
                flow_queue.requests.push_back(sender);
            }
            None if flows >= MAX_QUEUED_FLOWS => return Err(RejectReason::QueueFull),
            None => queue.push_back(FlowQueue {
                flow,
                requests: VecDeque::from([sender]),
            }),
        }
        Ok(Some(receiver))
    }

    /// Frees a seat and takes it for the next queued request: one of the same level, or else of another.
    fn release(&mut self, level: LevelIndex) -> Option<(LevelIndex, oneshot::Sender<Seat>)> {
        self.levels[level].taken -= 1;
        self.taken -= 1;
        let others = (0..self.levels.len()).filter(|other| *other != level);
        let mut in_order = std::iter::once(level).chain(others);
        in_order.find_map(|level| {
            if !self.has_seat(level) {
                return None;
            }
            let request = self.levels[level].next()?;
            self.take(level);
            Some((level, request))
        })
    }
}

// === impl PriorityLevelState ===

impl PriorityLevelState {
    /// The next request: the oldest of the first flow, which then moves to the end of the queue.
    fn next(&mut self) -> Option<oneshot::Sender<Seat>> {
        while let Some(mut flow) = self.queue.pop_front() {
            let next = std::iter::from_fn(|| flow.requests.pop_front()).find(|request| !request.is_closed());
            if !flow.requests.is_empty() {
                self.queue.push_back(flow);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.owner.release(self.level);
    }
}

// === impl ExecutingRequest ===

impl Drop for ExecutingRequest {
    fn drop(&mut self) {
        self.owner.metrics[self.schema]
            .executing
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a closure when dropped, also when the request's future is cancelled.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl MetricsSource for PriorityAndFairness {
    fn write(&self, text: &mut TextEncoder) {
        text.family(
            "apiserver_flowcontrol_nominal_limit_seats",
            "gauge",
            "Seats of each priority level.",
        );
        for (level, seats) in PRIORITY_LEVELS.iter().zip(&self.state.lock().levels) {
            text.sample(
                "apiserver_flowcontrol_nominal_limit_seats",
                &[("priority_level", level.name)],
                seats.nominal,
            );
        }
        self.write_rejected(text);
        for metric in &FLOW_METRICS {
            text.family(metric.name, metric.kind, metric.help);
            for (flow, metrics) in FLOW_SCHEMAS.iter().zip(&self.metrics) {
                let labels = [("flow_schema", flow.name), ("priority_level", flow.level_name())];
                text.sample(
                    metric.name,
                    &labels,
                    (metric.read)(metrics).load(Ordering::Relaxed),
                );
            }
        }
    }
}

impl PriorityAndFairness {
    fn write_rejected(&self, text: &mut TextEncoder) {
        const NAME: &str = "apiserver_flowcontrol_rejected_requests_total";
        text.family(NAME, "counter", "Rejected requests.");
        for (flow, metrics) in FLOW_SCHEMAS.iter().zip(&self.metrics) {
            for (reason, count) in REASONS.iter().zip(&metrics.rejected) {
                let labels = [
                    ("flow_schema", flow.name),
                    ("priority_level", flow.level_name()),
                    ("reason", reason),
                ];
                text.sample(NAME, &labels, count.load(Ordering::Relaxed));
            }
        }
    }
}

/// A metric of each flow schema.
struct FlowMetric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    read: fn(&FlowSchemaMetrics) -> &AtomicU64,
}

#[rustfmt::skip]
const FLOW_METRICS: [FlowMetric; 4] = [
    FlowMetric { name: "apiserver_flowcontrol_current_executing_requests", kind: "gauge", help: "Executing requests.", read: |one| &one.executing },
    FlowMetric { name: "apiserver_flowcontrol_current_executing_seats", kind: "gauge", help: "Seats taken.", read: |one| &one.executing },
    FlowMetric { name: "apiserver_flowcontrol_current_inqueue_requests", kind: "gauge", help: "Queued requests.", read: |one| &one.queued },
    FlowMetric { name: "apiserver_flowcontrol_dispatched_requests_total", kind: "counter", help: "Dispatched requests.", read: |one| &one.dispatched },
];

#[cfg(test)]
mod tests;
