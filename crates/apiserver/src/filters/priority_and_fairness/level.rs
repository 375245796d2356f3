//! [`Level`]: a priority level in operation: its requests behind one lock, and the notification of those that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use http::uri::PathAndQuery;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_api::{Clock, User};
use tokio::sync::{Notify, oneshot};

use super::flow_metrics::FlowMetrics;
use super::objects::DistinguisherMethod;
use super::queue_set::{Flow, LimitResponse, QueueSet, RejectReason, RequestId, RequestState};
use super::retry_after::RetryAfter;
use super::seat_demand::SeatDemandStats;
use super::utilization::{CountedRequest, LevelUtilization};
use super::work_estimate::WorkEstimate;
use crate::filters::flow_control::TooManyRequests;

/// A priority level. It lives as long as a configuration or a request refers to it.
#[derive(Debug)]
pub(crate) struct Level {
    name: String,
    clock: Arc<dyn Clock>,
    /// Notified when a timer of a level with waiting requests is due earlier than the filter's task expects, and when a
    /// quiescing level is idle.
    wake: Arc<Notify>,
    /// Whether no FlowSchema uses the level any more; it is removed once it is idle.
    quiescing: AtomicBool,
    state: Mutex<LevelState>,
}

/// The state of a level.
#[derive(Debug)]
pub(crate) struct LevelState {
    pub queue_set: QueueSet<ActiveRequest>,
    /// By slot; a FlowSchema keeps its slot.
    pub flows: Vec<FlowMetrics>,
    pub demand: SeatDemandStats,
    pub utilization: LevelUtilization,
    /// The seats that the last adjustment aimed at.
    pub target: f64,
    retry_after: RetryAfter,
    /// The filter's task ends timers at this time, or has done so.
    armed: Option<Timestamp>,
}

/// A request of a level, as its queue set has it.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    /// Slot of its FlowSchema in the level's metrics.
    pub slot: usize,
    pub details: RequestDetails,
    pub distinguisher: Option<DistinguisherMethod>,
    pub is_watch: bool,
    /// Notified when a waiting request is dispatched.
    waiter: Option<oneshot::Sender<()>>,
}

/// Who sent a request and what it requests, for debug dumps. Nothing of it is copied.
#[derive(Debug, Clone)]
pub(crate) struct RequestDetails {
    pub user: Arc<User>,
    pub method: Method,
    pub path: Option<PathAndQuery>,
}

/// A request that begins.
#[derive(Debug)]
pub(crate) struct NewRequest {
    pub slot: usize,
    pub flow: Flow,
    pub work: WorkEstimate,
    /// How many watches a mutating request notifies.
    pub watch_count: Option<usize>,
    pub distinguisher: Option<DistinguisherMethod>,
    pub is_watch: bool,
    pub details: RequestDetails,
}

/// The seats of a request, or its position in a queue, until dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    level: Arc<Level>,
    id: RequestId,
    /// Counts the request in the metrics of utilization while it executes.
    pub counted: Option<CountedRequest>,
}

/// A request that began.
#[derive(Debug)]
pub(crate) enum Start {
    Executing(Ticket),
    /// The channel notifies it when it is dispatched.
    Waiting(Ticket, oneshot::Receiver<()>),
}

// === impl Level ===

impl Level {
    pub(crate) fn new(
        name: &str,
        response: LimitResponse,
        clock: Arc<dyn Clock>,
        wake: Arc<Notify>,
    ) -> Arc<Self> {
        let now = clock.now();
        let state = LevelState {
            queue_set: QueueSet::new(response, 0, now),
            flows: Vec::new(),
            demand: SeatDemandStats::default(),
            utilization: LevelUtilization::new(now),
            target: 0.0,
            retry_after: RetryAfter::default(),
            armed: None,
        };
        Arc::new(Self {
            name: name.to_owned(),
            clock,
            wake,
            quiescing: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_quiescing(&self) -> bool {
        self.quiescing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_quiescing(&self, quiescing: bool) {
        self.quiescing.store(quiescing, Ordering::Relaxed);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().queue_set.is_idle()
    }

    /// The slot of a FlowSchema in the metrics of this level.
    pub(crate) fn slot(&self, flow_schema: &str) -> usize {
        let flows = &mut self.state.lock().flows;
        let known = flows.iter().position(|flow| flow.name() == flow_schema);
        known.unwrap_or_else(|| {
            flows.push(FlowMetrics::new(flow_schema));
            flows.len() - 1
        })
    }

    /// Begins a request.
    pub(crate) fn start(
        self: &Arc<Self>,
        now: Timestamp,
        request: NewRequest,
    ) -> Result<Start, TooManyRequests> {
        self.update(now, |state| match state.start(now, request) {
            Ok((id, receiver)) => {
                let ticket = Ticket {
                    level: self.clone(),
                    id,
                    counted: None,
                };
                Ok(match receiver {
                    None => Start::Executing(ticket),
                    Some(receiver) => Start::Waiting(ticket, receiver),
                })
            }
            Err(()) => Err(TooManyRequests {
                retry_after_seconds: state.retry_after.record(now.as_second()),
            }),
        })
    }

    /// Changes the queues, the current limit, and the nominal one that utilization is measured by.
    pub(crate) fn configure(&self, response: LimitResponse, limit: usize, nominal: usize) {
        let now = self.clock.now();
        self.update(now, |state| {
            state.queue_set.configure(now, response, limit);
            state.utilization.set_limits(now, nominal, response);
        });
    }

    /// Ends and releases what is due.
    pub(crate) fn sync(&self) {
        let now = self.clock.now();
        self.update(now, |state| state.queue_set.sync(now));
    }

    /// Calls `look` with the state as it is now.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&mut LevelState) -> T) -> T {
        let now = self.clock.now();
        self.update(now, |state| {
            state.queue_set.sync(now);
            look(state)
        })
    }

    /// The time at which the filter's task must end timers, since requests wait for the seats.
    pub(crate) fn arm(&self) -> Option<Timestamp> {
        let mut state = self.state.lock();
        state.armed = state.due();
        state.armed
    }

    /// Changes the state, then notifies the requests that were dispatched and, if necessary, the filter's task.
    fn update<T>(&self, now: Timestamp, change: impl FnOnce(&mut LevelState) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let totals = state.queue_set.totals();
        state.utilization.observe(now, &totals);
        let waiters = state.collect_dispatched(now);
        let is_due = match (state.due(), state.armed) {
            (Some(due), Some(armed)) => due < armed,
            (due, _) => due.is_some(),
        };
        let is_drained = self.is_quiescing() && state.queue_set.is_idle();
        drop(state);
        for waiter in waiters {
            // A request that was cancelled in the meantime ends when its ticket is dropped.
            let _ = waiter.send(());
        }
        if is_due || is_drained {
            self.wake.notify_one();
        }
        result
    }
}

// === impl LevelState ===

impl LevelState {
    fn start(
        &mut self,
        now: Timestamp,
        request: NewRequest,
    ) -> Result<(RequestId, Option<oneshot::Receiver<()>>), ()> {
        let (slot, work) = (request.slot, request.work);
        self.flows[slot].estimated(work.max_seats(), request.watch_count);
        let active = ActiveRequest {
            slot,
            details: request.details,
            distinguisher: request.distinguisher,
            is_watch: request.is_watch,
            waiter: None,
        };
        let id = match self.queue_set.start(now, request.flow, work, active) {
            Ok(id) => id,
            Err(reason) => {
                self.flows[slot].rejected(reason, std::time::Duration::ZERO);
                return Err(());
            }
        };
        let queues = self.queue_set.queues();
        let request = self.queue_set.find(id).expect("a request that started is found");
        let is_waiting = request.state == RequestState::Waiting;
        if let Some(queue) = request.queue {
            // As the request saw it: with itself.
            self.flows[slot].enqueued(queues[queue].len() + usize::from(!is_waiting));
        }
        let mut receiver = None;
        if is_waiting {
            let (sender, waiting) = oneshot::channel();
            let request = self.queue_set.find_mut(id).expect("the request was just found");
            request.attached.waiter = Some(sender);
            receiver = Some(waiting);
        }
        Ok((id, receiver))
    }

    fn end(&mut self, now: Timestamp, id: RequestId) {
        let Some(request) = self.queue_set.find(id) else {
            return;
        };
        let (slot, is_watch) = (request.attached.slot, request.attached.is_watch);
        let (waited, took) = (request.waiting_time(now), request.service_time(now));
        match self.queue_set.end(now, id) {
            Some(RequestState::Waiting) => {
                self.flows[slot].rejected(RejectReason::TimedOut, waited);
                self.retry_after.record(now.as_second());
            }
            Some(RequestState::Executing { .. }) => self.flows[slot].executed(took, is_watch),
            Some(RequestState::Lingering) | None => {}
        }
    }

    /// Counts the requests that were dispatched, and returns the channels of those that wait for it.
    fn collect_dispatched(&mut self, now: Timestamp) -> Vec<oneshot::Sender<()>> {
        let mut waiters = Vec::new();
        let Self { queue_set, flows, .. } = self;
        let is_exempt = matches!(queue_set.response(), LimitResponse::Exempt);
        queue_set.visit_dispatched(|request| {
            let waited = (!is_exempt).then(|| request.waiting_time(now));
            flows[request.attached.slot].dispatched(waited);
            waiters.extend(request.attached.waiter.take());
        });
        queue_set.visit_unaccommodated(|request| flows[request.attached.slot].unaccommodated());
        waiters
    }

    /// The next timer, if requests wait for what it releases.
    fn due(&self) -> Option<Timestamp> {
        self.queue_set
            .next_timer()
            .filter(|_| self.queue_set.totals().waiting > 0)
    }
}

// === impl Ticket ===

impl Ticket {
    /// Ends the request at this time, unless the ticket is dropped before.
    pub(crate) fn expire_at(&self, at: Timestamp) {
        self.level.state.lock().queue_set.end_at(at, self.id);
    }

    /// Gives up waiting.
    pub(crate) fn into_too_many_requests(self) -> TooManyRequests {
        let level = self.level.clone();
        drop(self);
        let retry_after_seconds = level.state.lock().retry_after.seconds();
        TooManyRequests { retry_after_seconds }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let now = self.level.clock.now();
        if let Some(counted) = &mut self.counted {
            counted.end(now);
        }
        self.level.update(now, |state| state.end(now, self.id));
    }
}
