//! Fair queuing of the requests of one priority level: a state machine without I/O.
//!
//! Each flow has a hand of queues; a request joins the shortest of them. Virtual time R advances by the seats that each
//! active queue is due. A queue's next request is dispatched, in the virtual world, at the queue's `next_dispatch_r`,
//! which each dispatch moves on by the work of the request; among all queues, the request that would finish first is
//! dispatched next. So a flow with a thousand requests delays its own and not those of other queues, and a wide request
//! counts for as much as the narrow ones that it displaces. How long a request really took corrects the estimate when
//! it finishes.
//!
//! One example: one seat; queue A has three requests of 3 ms, queue B gets one. A's first is executing, so A's
//! `next_dispatch_r` is R + 3 ms; B's is R. B's request would finish at R + 3 ms and A's second at R + 6 ms: B is next.
//!
//! The order alone does not protect others from requests that execute for long: seven lists that their client reads
//! slowly would occupy a level until the first of them ends. A flow therefore leaves a fifth of the seats that other
//! flows do not use ([`QueueSet::is_over_share`]); while it has taken the rest, its requests wait and those of other
//! flows pass them.
//!
//! Otherwise the rules are those of Kubernetes' `apiserver/pkg/util/flowcontrol/fairqueuing/queueset`. Time is an
//! argument. A request is identified by the [`RequestId`] that `start` returns; the ids of dispatched requests are
//! collected for [`QueueSet::visit_dispatched`].

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

mod dispatch;
mod end;
mod flow_seats;
mod queue;
mod requests;

pub(crate) use dispatch::DispatchMetrics;
pub(crate) use flow_seats::Flow;
pub(crate) use queue::Queue;
pub(crate) use requests::{Request, RequestId, RequestState};

use super::seat_demand::{SeatDemand, SeatDemandStats};
use super::seat_seconds::SeatSeconds;
use super::shuffle_sharding::Dealer;
use super::work_estimate::WorkEstimate;
use flow_seats::FlowSeats;
use requests::Requests;

/// The service time that is assumed of a request until it finishes.
const ESTIMATED_SERVICE_TIME: Duration = Duration::from_millis(3);

/// Of so many seats that other flows do not use, a flow leaves one.
const SEATS_PER_RESERVED_SEAT: usize = 5;

/// What happens to requests over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitResponse {
    /// There is no limit.
    Exempt,
    /// They are rejected.
    Reject,
    /// They wait in queues.
    Queue(QueuingConfig),
}

/// The queues of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueuingConfig {
    pub queues: usize,
    pub queue_length_limit: usize,
    pub dealer: Dealer,
}

/// Why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// The level has no queues.
    ConcurrencyLimit,
    /// The shortest queue of the flow is full.
    QueueFull,
    /// It waited for too long, or its caller left.
    TimedOut,
}

/// Counts of all requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub waiting: usize,
    /// Without those that only occupy their final seats.
    pub executing: usize,
    pub seats_in_use: usize,
    pub seats_waiting: usize,
    pub dispatched: u64,
    pub rejected: u64,
    pub cancelled: u64,
}

/// The requests of one priority level. `T` is what the caller attaches to a request.
#[derive(Debug)]
pub(crate) struct QueueSet<T> {
    response: LimitResponse,
    /// Seats that may be in use at once.
    limit: usize,
    /// More than configured while the last ones still have requests. Requests refer to them by index.
    queues: Vec<Queue>,
    /// How many queues are active.
    active_queues: usize,
    requests: Requests<T>,
    /// Of executing requests, and of those that only occupy their final seats.
    flow_seats: FlowSeats,
    /// Executing requests whose seats are released at a time. Each is the `timer` of its request.
    timers: BTreeSet<(Timestamp, RequestId)>,
    /// Virtual time at `last`.
    current_r: SeatSeconds,
    last: Timestamp,
    /// The queue that was dispatched from last.
    robin: usize,
    /// The queue that got the last request.
    last_enqueued: usize,
    enqueued: usize,
    totals: Totals,
    demand: SeatDemand,
    dispatch_metrics: DispatchMetrics,
    dispatched: Vec<RequestId>,
    /// Requests whose dispatch had to wait for more free seats than there were.
    unaccommodated: Vec<RequestId>,
}

impl<T> QueueSet<T> {
    pub(crate) fn new(response: LimitResponse, limit: usize, now: Timestamp) -> Self {
        let mut queue_set = Self {
            response: LimitResponse::Reject,
            limit: 0,
            queues: Vec::new(),
            active_queues: 0,
            requests: Requests::default(),
            flow_seats: FlowSeats::default(),
            timers: BTreeSet::new(),
            current_r: SeatSeconds::ZERO,
            last: now,
            robin: 0,
            last_enqueued: 0,
            enqueued: 0,
            totals: Totals::default(),
            demand: SeatDemand::new(now),
            dispatch_metrics: DispatchMetrics::default(),
            dispatched: Vec::new(),
            unaccommodated: Vec::new(),
        };
        queue_set.configure(now, response, limit);
        queue_set
    }

    /// Changes the configuration. Waiting requests stay in their queues, also in those that are no longer configured.
    pub(crate) fn configure(&mut self, now: Timestamp, response: LimitResponse, limit: usize) {
        self.sync(now);
        self.response = response;
        self.limit = limit;
        let queues = self.configured_queues();
        if self.queues.len() < queues {
            self.queues.resize_with(queues, Queue::default);
        }
        self.remove_excess_queues();
        self.dispatch_all(now);
    }

    /// Begins a request: it executes or waits from now on.
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        flow: Flow,
        work: WorkEstimate,
        attached: T,
    ) -> Result<RequestId, RejectReason> {
        self.sync(now);
        let request = Request::new(attached, flow, work, (now, self.current_r));
        let LimitResponse::Queue(config) = self.response else {
            return self.start_without_queue(now, request);
        };
        let queue = self.select_queue(config, flow.hash);
        let is_full = self.queues[queue].len() >= config.queue_length_limit;
        let must_wait = self.totals.seats_in_use >= self.limit || self.is_over_share(&request);
        if is_full && must_wait {
            self.totals.rejected += 1;
            return Err(RejectReason::QueueFull);
        }
        let id = self.enqueue(queue, request);
        self.dispatch_all(now);
        Ok(id)
    }

    fn start_without_queue(
        &mut self,
        now: Timestamp,
        request: Request<T>,
    ) -> Result<RequestId, RejectReason> {
        let seats = request.work.max_seats();
        if !self.can_accommodate(seats) {
            self.totals.rejected += 1;
            return Err(RejectReason::ConcurrencyLimit);
        }
        let id = self.requests.insert(request);
        self.set_executing(now, id);
        self.note_demand(now);
        Ok(id)
    }

    /// Ends a request: an executing one has finished, a waiting one is cancelled. One that its timer has ended already
    /// stays as it is. Returns the state in which it was.
    pub(crate) fn end(&mut self, now: Timestamp, id: RequestId) -> Option<RequestState> {
        self.sync(now);
        let state = self.requests.find(id)?.state;
        match state {
            RequestState::Waiting => self.cancel(id),
            RequestState::Executing { .. } => self.finish(now, id),
            // The request has ended; its seats are released by their timer.
            RequestState::Lingering => return None,
        }
        self.dispatch_all(now);
        Some(state)
    }

    /// Ends an executing request at this time, if it has not ended before.
    pub(crate) fn end_at(&mut self, at: Timestamp, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        if matches!(request.state, RequestState::Executing { .. }) && request.timer.is_none() {
            request.timer = Some(at);
            self.timers.insert((at, id));
        }
    }

    /// Ends and releases what is due.
    pub(crate) fn sync(&mut self, now: Timestamp) {
        while let Some((at, id)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.pop_first();
            self.advance(at);
            let Some(request) = self.requests.find_mut(id) else {
                continue;
            };
            request.timer = None;
            match request.state {
                RequestState::Executing { .. } => self.finish(at, id),
                RequestState::Waiting | RequestState::Lingering => self.release(id),
            }
            self.dispatch_all(at);
        }
        self.advance(now);
    }

    /// Ends the adjustment period of the seat demand.
    pub(crate) fn end_demand_period(&mut self, now: Timestamp, stats: &mut SeatDemandStats) {
        self.sync(now);
        self.demand.end_period(now, stats);
    }

    /// The time of the next timer.
    pub(crate) fn next_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether no request waits or executes.
    pub(crate) fn is_idle(&self) -> bool {
        self.totals.waiting == 0 && self.totals.executing == 0
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn response(&self) -> LimitResponse {
        self.response
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn current_r(&self) -> SeatSeconds {
        self.current_r
    }

    pub(crate) fn dispatch_metrics(&self) -> &DispatchMetrics {
        &self.dispatch_metrics
    }

    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    pub(crate) fn find(&self, id: RequestId) -> Option<&Request<T>> {
        self.requests.find(id)
    }

    pub(crate) fn find_mut(&mut self, id: RequestId) -> Option<&mut Request<T>> {
        self.requests.find_mut(id)
    }

    /// All requests that have not been released.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Request<T>> {
        self.requests.iter()
    }

    /// Calls `visitor` with the requests that were dispatched since the last call.
    pub(crate) fn visit_dispatched(&mut self, mut visitor: impl FnMut(&mut Request<T>)) {
        for id in self.dispatched.drain(..) {
            if let Some(request) = self.requests.find_mut(id) {
                visitor(request);
            }
        }
    }

    /// Calls `visitor` with the requests, since the last call, that were next and did not fit into the free seats.
    pub(crate) fn visit_unaccommodated(&mut self, mut visitor: impl FnMut(&Request<T>)) {
        for id in self.unaccommodated.drain(..) {
            if let Some(request) = self.requests.find(id) {
                visitor(request);
            }
        }
    }

    fn configured_queues(&self) -> usize {
        match self.response {
            LimitResponse::Queue(config) => config.queues,
            LimitResponse::Exempt | LimitResponse::Reject => 0,
        }
    }

    /// Of the flow's hand, the queue with the least work waiting.
    fn select_queue(&mut self, config: QueuingConfig, hash: u64) -> usize {
        let offset = self.enqueued;
        self.enqueued = self.enqueued.wrapping_add(1);
        let hand = config.dealer.deal(hash);
        let shortest = hand
            .from(offset)
            .min_by_key(|queue| self.queues[*queue].work_waiting());
        shortest.expect("a hand has at least one queue")
    }

    /// Changes a queue, and counts it if that makes it active or inactive.
    fn update_queue(&mut self, index: usize, change: impl FnOnce(&mut Queue)) {
        let queue = &mut self.queues[index];
        let before = queue.is_active();
        change(queue);
        match (before, queue.is_active()) {
            (false, true) => self.active_queues += 1,
            (true, false) => self.active_queues -= 1,
            _ => {}
        }
    }

    fn note_demand(&mut self, now: Timestamp) {
        let seats = self.totals.seats_in_use + self.totals.seats_waiting;
        self.demand.set(now, seats);
    }

    /// Advances virtual time: by the seats that are used or could be, divided among the active queues.
    fn advance(&mut self, now: Timestamp) {
        let elapsed = Duration::try_from(now.duration_since(self.last)).unwrap_or_default();
        self.last = self.last.max(now);
        if self.active_queues > 0 {
            let requested = self.totals.seats_in_use + self.totals.seats_waiting;
            let work = SeatSeconds::of(requested.min(self.limit), elapsed);
            self.current_r += work.per(self.active_queues);
        }
    }
}

#[cfg(test)]
mod tests;
