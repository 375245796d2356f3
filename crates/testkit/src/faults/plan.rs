//! [`FaultPlan`]: which faults are injected, and how often.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A fault of a request or within its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The connection is closed without a response.
    NoResponse,
    /// 429 with `Retry-After`.
    TooManyRequests,
    /// 429 without `Retry-After`.
    TooManyRequestsWithoutRetryAfter,
    /// 500.
    InternalError,
    /// 503.
    ServiceUnavailable,
    /// 410.
    Expired,
    /// The connection is closed within the response; a watch is cut between two events.
    Cut,
    /// A watch is cut within an event.
    CutWithinEvent,
    /// Nothing more is sent, and the connection stays open.
    Stalled,
    /// A watch ends cleanly.
    Closed,
    /// A watch ends with an ERROR event: 410.
    ExpiredEvent,
    /// A watch ends with an ERROR event: 500.
    InternalErrorEvent,
    /// An event is delivered twice.
    Duplicated,
    /// An earlier event is delivered again.
    Replayed,
    /// An event is not delivered, and the watch goes on.
    Dropped,
}

/// The probability of faults, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRates {
    /// Of a fault of a request.
    pub request: u32,
    /// Of a fault of a watch event, except that it is dropped.
    pub event: u32,
    /// Of a dropped event. An informer only finds out by another list.
    pub drop_event: u32,
}

/// Decides the faults of everything that passes a proxy.
#[derive(Debug)]
pub struct FaultPlan {
    rates: FaultRates,
    rng: Mutex<StdRng>,
    /// Once ended, no faults are injected.
    ended: AtomicBool,
    injected: Mutex<BTreeMap<Fault, usize>>,
}

const REQUEST_FAULTS: [Fault; 8] = [
    Fault::NoResponse,
    Fault::TooManyRequests,
    Fault::TooManyRequestsWithoutRetryAfter,
    Fault::InternalError,
    Fault::ServiceUnavailable,
    Fault::Expired,
    Fault::Cut,
    Fault::Stalled,
];
const EVENT_FAULTS: [Fault; 8] = [
    Fault::Cut,
    Fault::CutWithinEvent,
    Fault::Stalled,
    Fault::Closed,
    Fault::ExpiredEvent,
    Fault::InternalErrorEvent,
    Fault::Duplicated,
    Fault::Replayed,
];

// === impl Fault ===

impl Fault {
    /// Every fault there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let both = REQUEST_FAULTS.into_iter().chain(EVENT_FAULTS);
        let mut all: Vec<_> = both.chain([Self::Dropped]).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

// === impl FaultPlan ===

impl FaultPlan {
    /// A plan that injects the same faults for the same requests in the same order.
    pub fn new(seed: u64, rates: FaultRates) -> Self {
        Self {
            rates,
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            ended: AtomicBool::new(false),
            injected: Mutex::default(),
        }
    }

    /// From now on, no faults are injected. Stalled connections stay stalled.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// How often each fault was injected so far.
    pub fn injected(&self) -> BTreeMap<Fault, usize> {
        self.injected.lock().clone()
    }

    /// The fault of the next request.
    pub(crate) fn for_request(&self) -> Option<Fault> {
        self.draw(self.rates.request, &REQUEST_FAULTS)
    }

    /// The fault of the next event.
    pub(crate) fn for_event(&self) -> Option<Fault> {
        let dropped = self.draw(self.rates.drop_event, &[Fault::Dropped]);
        dropped.or_else(|| self.draw(self.rates.event, &EVENT_FAULTS))
    }

    /// A random number below `end`.
    pub(crate) fn random_below(&self, end: usize) -> usize {
        self.rng.lock().random_range(0..end.max(1))
    }

    fn draw(&self, rates: u32, faults: &[Fault]) -> Option<Fault> {
        let fault = {
            let mut rng = self.rng.lock();
            let happens = rng.random_range(0..1000) < rates;
            let which = rng.random_range(0..faults.len());
            happens.then(|| faults[which])?
        };
        if self.ended.load(Ordering::SeqCst) {
            return None;
        }
        *self.injected.lock().entry(fault).or_default() += 1;
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODDS: FaultRates = FaultRates {
        request: 500,
        event: 500,
        drop_event: 100,
    };

    #[test]
    fn a_seed_decides_the_faults() {
        let drawn = |seed| {
            let plan = FaultPlan::new(seed, ODDS);
            let draws = (0..50).map(|i| {
                if i % 3 == 0 {
                    plan.for_request()
                } else {
                    plan.for_event()
                }
            });
            draws.collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn a_plan_that_has_ended_injects_nothing() {
        let plan = FaultPlan::new(1, ODDS);
        plan.end();
        assert!((0..100).all(|_| plan.for_request().is_none() && plan.for_event().is_none()));
        assert!(plan.injected().is_empty());
    }
}
