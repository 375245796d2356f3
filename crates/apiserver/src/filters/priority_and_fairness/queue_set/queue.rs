//! [`Queue`]: one queue of a priority level.

use std::collections::VecDeque;

use super::requests::{RequestId, work_of};
use crate::filters::priority_and_fairness::seat_seconds::SeatSeconds;
use crate::filters::priority_and_fairness::work_estimate::WorkEstimate;

/// Requests that arrived and have not been released. Those that execute are only counted.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The oldest first.
    waiting: VecDeque<RequestId>,
    /// The sums over the waiting requests.
    sums: QueueSums,
    /// When, in virtual time, the next request is dispatched.
    pub(super) next_dispatch_r: SeatSeconds,
    pub(super) executing: usize,
    /// Of executing requests, and of those that only occupy their final seats.
    pub(super) seats_in_use: usize,
}

/// Sums over the waiting requests of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueSums {
    pub initial_seats: usize,
    pub max_seats: usize,
    pub work: SeatSeconds,
}

impl Queue {
    /// The number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn executing(&self) -> usize {
        self.executing
    }

    pub(crate) fn seats_in_use(&self) -> usize {
        self.seats_in_use
    }

    pub(crate) fn next_dispatch_r(&self) -> SeatSeconds {
        self.next_dispatch_r
    }

    pub(crate) fn sums(&self) -> QueueSums {
        self.sums
    }

    /// The waiting requests, the oldest first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.iter().copied()
    }

    /// Whether a request waits or executes.
    pub(super) fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }

    pub(super) fn is_unused(&self) -> bool {
        !self.is_active() && self.seats_in_use == 0
    }

    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.waiting.front().copied()
    }

    pub(super) fn work_waiting(&self) -> SeatSeconds {
        self.sums.work
    }

    /// Adds a request. A queue that was not active begins at the current virtual time.
    pub(super) fn push(&mut self, id: RequestId, work: &WorkEstimate, current_r: SeatSeconds) {
        if !self.is_active() {
            self.next_dispatch_r = current_r;
        }
        self.waiting.push_back(id);
        self.sums.initial_seats += work.initial_seats;
        self.sums.max_seats += work.max_seats();
        self.sums.work += work_of(work);
    }

    pub(super) fn remove(&mut self, id: RequestId, work: &WorkEstimate) {
        let Some(at) = self.waiting.iter().position(|one| *one == id) else {
            return;
        };
        self.waiting.remove(at);
        self.sums.initial_seats -= work.initial_seats;
        self.sums.max_seats -= work.max_seats();
        self.sums.work -= work_of(work);
    }

    /// Corrects the virtual time by how long a request really took.
    pub(super) fn finish(&mut self, estimated: SeatSeconds, actual: SeatSeconds) {
        self.executing -= 1;
        self.next_dispatch_r += actual - estimated;
    }
}
