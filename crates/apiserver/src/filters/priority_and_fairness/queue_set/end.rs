//! The end of a request: cancelled, finished, released.

use jiff::Timestamp;

use super::{ESTIMATED_SERVICE_TIME, Queue, QueueSet, RequestId, RequestState};
use crate::filters::priority_and_fairness::seat_seconds::SeatSeconds;

impl<T> QueueSet<T> {
    pub(super) fn cancel(&mut self, id: RequestId) {
        let Some(request) = self.requests.remove(id) else {
            return;
        };
        if let Some(queue) = request.queue {
            self.update_queue(queue, |queue| queue.remove(id, &request.work));
            self.bound_next_dispatch(queue);
        }
        self.totals.waiting -= 1;
        self.totals.seats_waiting -= request.work.max_seats();
        self.totals.rejected += 1;
        self.totals.cancelled += 1;
        self.remove_excess_queues();
    }

    /// Ends the execution of a request. Its seats are released now or after its additional latency.
    pub(super) fn finish(&mut self, now: Timestamp, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else {
            return;
        };
        if let Some(at) = request.timer.take() {
            self.timers.remove(&(at, id));
        }
        let service_time = request.service_time(now);
        request.state = RequestState::Lingering;
        let (queue, work) = (request.queue, request.work);
        let lingers = !work.additional_latency.is_zero();
        if lingers {
            let at = now
                .saturating_add(work.additional_latency)
                .unwrap_or(Timestamp::MAX);
            request.timer = Some(at);
            self.timers.insert((at, id));
        }
        self.totals.executing -= 1;
        if let Some(queue) = queue {
            let estimated = SeatSeconds::of(work.initial_seats, ESTIMATED_SERVICE_TIME);
            let actual = SeatSeconds::of(work.initial_seats, service_time);
            self.update_queue(queue, |queue| queue.finish(estimated, actual));
            self.bound_next_dispatch(queue);
        }
        if !lingers {
            self.release(id);
        }
    }

    pub(super) fn release(&mut self, id: RequestId) {
        let Some(request) = self.requests.remove(id) else {
            return;
        };
        let seats = request.work.max_seats();
        self.flow_seats.remove(request.flow, seats);
        self.totals.seats_in_use -= seats;
        if let Some(queue) = request.queue {
            self.update_queue(queue, |queue| queue.seats_in_use -= seats);
        }
        self.remove_excess_queues();
    }

    /// Removes the last queues if they are not configured and have no requests.
    pub(super) fn remove_excess_queues(&mut self) {
        let configured = self.configured_queues();
        while self.queues.len() > configured && self.queues.last().is_some_and(Queue::is_unused) {
            self.queues.pop();
        }
        if self.robin >= self.queues.len() {
            self.robin = 0;
        }
    }
}
