//! The requests of a [`QueueSet`](super::QueueSet), by id.

use std::time::Duration;

use jiff::Timestamp;

use super::{ESTIMATED_SERVICE_TIME, Flow};
use crate::filters::priority_and_fairness::seat_seconds::SeatSeconds;
use crate::filters::priority_and_fairness::work_estimate::WorkEstimate;

/// Identifies a request. The id of one that has been released is never found again, although its slot is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId {
    slot: usize,
    generation: u64,
}

/// A request that waits, executes or occupies its final seats.
#[derive(Debug)]
pub(crate) struct Request<T> {
    pub attached: T,
    pub work: WorkEstimate,
    pub arrival: Timestamp,
    pub state: RequestState,
    /// Index of its queue; `None` if it went through none.
    pub queue: Option<usize>,
    pub(super) flow: Flow,
    pub(super) arrival_r: SeatSeconds,
    /// When it is ended or released, if that is set.
    pub(super) timer: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// In its queue, until it is dispatched or cancelled.
    Waiting,
    /// Dispatched, until it ends.
    Executing { started: Timestamp },
    /// Ended; its seats are occupied until their timer.
    Lingering,
}

/// A slab of requests.
#[derive(Debug)]
pub(super) struct Requests<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u64,
    request: Option<Request<T>>,
}

/// The estimated work of both phases.
pub(super) fn work_of(work: &WorkEstimate) -> SeatSeconds {
    SeatSeconds::of(work.initial_seats, ESTIMATED_SERVICE_TIME) + final_work_of(work)
}

pub(super) fn final_work_of(work: &WorkEstimate) -> SeatSeconds {
    SeatSeconds::of(work.final_seats, work.additional_latency)
}

// === impl Request ===

impl<T> Request<T> {
    pub(super) fn new(
        attached: T,
        flow: Flow,
        work: WorkEstimate,
        (arrival, arrival_r): (Timestamp, SeatSeconds),
    ) -> Self {
        Self {
            attached,
            flow,
            work,
            arrival,
            arrival_r,
            state: RequestState::Waiting,
            queue: None,
            timer: None,
        }
    }

    /// How long it has executed.
    pub(crate) fn service_time(&self, now: Timestamp) -> Duration {
        match self.state {
            RequestState::Executing { started } => {
                Duration::try_from(now.duration_since(started)).unwrap_or_default()
            }
            RequestState::Waiting | RequestState::Lingering => Duration::ZERO,
        }
    }

    /// How long it waited until it began to execute.
    pub(crate) fn waiting_time(&self, now: Timestamp) -> Duration {
        let until = match self.state {
            RequestState::Executing { started } => started,
            RequestState::Waiting | RequestState::Lingering => now,
        };
        Duration::try_from(until.duration_since(self.arrival)).unwrap_or_default()
    }
}

// === impl Requests ===

impl<T> Default for Requests<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Requests<T> {
    pub(super) fn insert(&mut self, request: Request<T>) -> RequestId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                request: None,
            });
            self.slots.len() - 1
        });
        let entry = &mut self.slots[slot];
        entry.generation += 1;
        entry.request = Some(request);
        RequestId {
            slot,
            generation: entry.generation,
        }
    }

    pub(super) fn find(&self, id: RequestId) -> Option<&Request<T>> {
        let slot = self
            .slots
            .get(id.slot)
            .filter(|slot| slot.generation == id.generation)?;
        slot.request.as_ref()
    }

    pub(super) fn find_mut(&mut self, id: RequestId) -> Option<&mut Request<T>> {
        let slot = self
            .slots
            .get_mut(id.slot)
            .filter(|slot| slot.generation == id.generation)?;
        slot.request.as_mut()
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Request<T>> {
        let slot = self
            .slots
            .get_mut(id.slot)
            .filter(|slot| slot.generation == id.generation)?;
        let request = slot.request.take()?;
        self.free.push(id.slot);
        Some(request)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Request<T>> {
        self.slots.iter().filter_map(|slot| slot.request.as_ref())
    }
}
