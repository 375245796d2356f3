//! Dispatch: which waiting request executes next.

use jiff::Timestamp;

use super::requests::{final_work_of, work_of};
use super::{
    ESTIMATED_SERVICE_TIME, LimitResponse, Queue, QueueSet, Request, RequestId, RequestState,
    SEATS_PER_RESERVED_SEAT,
};
use crate::filters::priority_and_fairness::seat_seconds::SeatSeconds;

/// Virtual times of the last dispatch, for metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DispatchMetrics {
    /// Virtual time at the dispatch.
    pub dispatch_r: SeatSeconds,
    /// Virtual start of the dispatched request.
    pub latest_s: SeatSeconds,
    /// Least and greatest virtual start, over the queues with waiting requests.
    pub next_s: (SeatSeconds, SeatSeconds),
    /// The same, less the estimated work of executing requests.
    pub next_discounted_s: (SeatSeconds, SeatSeconds),
}

impl<T> QueueSet<T> {
    /// Dispatches as many waiting requests as fit.
    pub(super) fn dispatch_all(&mut self, now: Timestamp) {
        while self.totals.waiting > 0 && self.totals.seats_in_use < self.limit {
            let Some((queue, id)) = self.find_next() else {
                break;
            };
            if !self.can_accommodate(self.max_seats(id)) {
                self.unaccommodated.push(id);
                break;
            }
            self.dispatch(now, queue, id);
        }
        self.note_demand(now);
    }

    /// Adds a request to a queue.
    pub(super) fn enqueue(&mut self, queue: usize, mut request: Request<T>) -> RequestId {
        request.queue = Some(queue);
        let (work, current_r) = (request.work, self.current_r);
        let id = self.requests.insert(request);
        self.last_enqueued = queue;
        self.update_queue(queue, |queue| queue.push(id, &work, current_r));
        self.totals.waiting += 1;
        self.totals.seats_waiting += work.max_seats();
        self.bound_next_dispatch(queue);
        id
    }

    /// Whether this many more seats may be used. A request that is wider than the limit executes alone.
    pub(super) fn can_accommodate(&self, seats: usize) -> bool {
        match self.response {
            LimitResponse::Exempt => true,
            _ if seats > self.limit => self.totals.executing == 0,
            _ => self.totals.seats_in_use + seats <= self.limit,
        }
    }

    /// Whether a request would take more than its flow's share of the seats. A flow may execute one request of any width.
    pub(super) fn is_over_share(&self, request: &Request<T>) -> bool {
        let own = self.flow_seats.of(request.flow);
        if own == 0 || !request.flow.is_distinguished {
            return false;
        }
        let others = self.totals.seats_in_use - own;
        let available = self.limit.saturating_sub(others);
        own + request.work.max_seats() > available - available / SEATS_PER_RESERVED_SEAT
    }

    pub(super) fn set_executing(&mut self, now: Timestamp, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        request.state = RequestState::Executing { started: now };
        let (flow, seats) = (request.flow, request.work.max_seats());
        self.flow_seats.add(flow, seats);
        self.totals.seats_in_use += seats;
        self.totals.executing += 1;
        self.totals.dispatched += 1;
        self.dispatched.push(id);
    }

    /// Ensures that a queue's next dispatch is not before the arrival of its oldest request: a queue that does not use
    /// its share does not save it up.
    pub(super) fn bound_next_dispatch(&mut self, queue: usize) {
        let oldest = self.queues[queue].oldest().and_then(|id| self.requests.find(id));
        if let Some(arrival_r) = oldest.map(|request| request.arrival_r) {
            let queue = &mut self.queues[queue];
            queue.next_dispatch_r = queue.next_dispatch_r.max(arrival_r);
        }
    }

    fn max_seats(&self, id: RequestId) -> usize {
        self.requests
            .find(id)
            .map_or(0, |request| request.work.max_seats())
    }

    /// The oldest request of a queue whose flow is not over its share.
    fn next_of(&self, queue: &Queue) -> Option<(RequestId, &Request<T>)> {
        let mut waiting = queue
            .waiting()
            .filter_map(|id| Some((id, self.requests.find(id)?)));
        waiting.find(|(_, request)| !self.is_over_share(request))
    }

    /// The request with the earliest virtual finish among the next ones of each queue. Among equals it is the first one
    /// after the queue that was dispatched from last.
    fn find_next(&mut self) -> Option<(usize, RequestId)> {
        let mut best: Option<(SeatSeconds, usize, RequestId)> = None;
        let mut next_s = (SeatSeconds::MAX, SeatSeconds::ZERO);
        let mut discounted_s = next_s;
        let first = self.first_candidate();
        for offset in 0..self.queues.len() {
            let index = (first + offset) % self.queues.len();
            let queue = &self.queues[index];
            let Some((id, request)) = self.next_of(queue) else {
                continue;
            };
            let start = queue.next_dispatch_r;
            let in_progress = SeatSeconds::of(queue.seats_in_use, ESTIMATED_SERVICE_TIME);
            next_s = widen(next_s, start);
            discounted_s = widen(discounted_s, start - in_progress);
            let work = work_of(&request.work);
            if best.is_none_or(|(finish, ..)| start + work < finish) {
                best = Some((start + work, index, id));
            }
            if queue.len() == self.totals.waiting {
                // No other queue has a waiting request.
                break;
            }
        }
        let (_, queue, id) = best?;
        self.dispatch_metrics = DispatchMetrics {
            dispatch_r: self.current_r,
            latest_s: self.queues[queue].next_dispatch_r,
            next_s,
            next_discounted_s: discounted_s,
        };
        Some((queue, id))
    }

    /// The queue at which the search begins: the only one with waiting requests if that is the one that got the last
    /// request, so that an idle level is not searched; otherwise the one after the last dispatch.
    fn first_candidate(&self) -> usize {
        let last_enqueued = self.queues.get(self.last_enqueued);
        match last_enqueued.is_some_and(|queue| queue.len() == self.totals.waiting) {
            true => self.last_enqueued,
            false => self.robin + 1,
        }
    }

    fn dispatch(&mut self, now: Timestamp, queue: usize, id: RequestId) {
        let limit = self.limit;
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        let waiting_work = request.work;
        if request.work.final_seats > limit {
            // The same work, by fewer seats for longer.
            request.work.additional_latency = final_work_of(&waiting_work).duration(limit);
            request.work.final_seats = limit;
        }
        let seats = request.work.max_seats();
        self.robin = queue;
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= waiting_work.max_seats();
        self.set_executing(now, id);
        self.update_queue(queue, |queue| {
            queue.remove(id, &waiting_work);
            queue.executing += 1;
            queue.seats_in_use += seats;
            queue.next_dispatch_r += work_of(&waiting_work);
        });
        self.bound_next_dispatch(queue);
    }
}

fn widen(range: (SeatSeconds, SeatSeconds), value: SeatSeconds) -> (SeatSeconds, SeatSeconds) {
    (range.0.min(value), range.1.max(value))
}
