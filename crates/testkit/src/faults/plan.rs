//! What goes wrong, and when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Something that goes wrong with a request or within its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The connection is closed without an answer.
    HungUp,
    /// The server says that it has too much to do, and when to come back.
    TooMany,
    /// The same without saying when.
    TooManyForever,
    /// The server says that it is broken.
    Broken,
    /// The server says that it is not there.
    Away,
    /// What is asked for is gone.
    Expired,
    /// The connection is closed within the answer; a watch is cut between two events.
    Cut,
    /// A watch is cut within an event.
    CutInside,
    /// Nothing more comes, and nobody says so.
    Stalled,
    /// A watch ends cleanly.
    Closed,
    /// A watch ends with an error event: what comes next is gone.
    ExpiredInside,
    /// A watch ends with an error event: the server is broken.
    BrokenInside,
    /// An event comes twice.
    Twice,
    /// An event that came a while ago comes again.
    Again,
    /// An event does not come, and the watch goes on.
    Swallowed,
}

/// How likely what is, in a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odds {
    /// That a request fails in some way.
    pub request: u32,
    /// That an event makes its watch fail in some way, or comes twice.
    pub event: u32,
    /// That an event is swallowed. An informer finds out by another list only.
    pub swallow: u32,
}

/// What is to go wrong with everything that passes a proxy.
#[derive(Debug)]
pub struct Plan {
    odds: Odds,
    dice: Mutex<StdRng>,
    /// Once it is over, everything passes.
    over: AtomicBool,
    happened: Mutex<BTreeMap<Fault, usize>>,
}

const OF_REQUESTS: [Fault; 8] = [
    Fault::HungUp,
    Fault::TooMany,
    Fault::TooManyForever,
    Fault::Broken,
    Fault::Away,
    Fault::Expired,
    Fault::Cut,
    Fault::Stalled,
];
const OF_EVENTS: [Fault; 8] = [
    Fault::Cut,
    Fault::CutInside,
    Fault::Stalled,
    Fault::Closed,
    Fault::ExpiredInside,
    Fault::BrokenInside,
    Fault::Twice,
    Fault::Again,
];

// === impl Fault ===

impl Fault {
    /// Every fault there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let both = OF_REQUESTS.into_iter().chain(OF_EVENTS);
        let mut all: Vec<_> = both.chain([Self::Swallowed]).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

// === impl Plan ===

impl Plan {
    /// A plan that always comes out the same for the same requests in the same order.
    pub fn of(seed: u64, odds: Odds) -> Self {
        Self {
            odds,
            dice: Mutex::new(StdRng::seed_from_u64(seed)),
            over: AtomicBool::new(false),
            happened: Mutex::default(),
        }
    }

    /// From now on, everything passes. What has stalled still does.
    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    /// How often what has happened so far.
    pub fn happened(&self) -> BTreeMap<Fault, usize> {
        self.happened.lock().clone()
    }

    /// What goes wrong with the next request.
    pub(crate) fn for_request(&self) -> Option<Fault> {
        self.draw(self.odds.request, &OF_REQUESTS)
    }

    /// What goes wrong with the next event.
    pub(crate) fn for_event(&self) -> Option<Fault> {
        let swallowed = self.draw(self.odds.swallow, &[Fault::Swallowed]);
        swallowed.or_else(|| self.draw(self.odds.event, &OF_EVENTS))
    }

    /// Any number below `end`.
    pub(crate) fn any_below(&self, end: usize) -> usize {
        self.dice.lock().random_range(0..end.max(1))
    }

    fn draw(&self, odds: u32, faults: &[Fault]) -> Option<Fault> {
        let fault = {
            let mut dice = self.dice.lock();
            let happens = dice.random_range(0..1000) < odds;
            let which = dice.random_range(0..faults.len());
            happens.then(|| faults[which])?
        };
        if self.over.load(Ordering::SeqCst) {
            return None;
        }
        *self.happened.lock().entry(fault).or_default() += 1;
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODDS: Odds = Odds {
        request: 500,
        event: 500,
        swallow: 100,
    };

    #[test]
    fn a_seed_decides_what_happens() {
        let drawn = |seed| {
            let plan = Plan::of(seed, ODDS);
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
    fn a_plan_that_is_over_does_no_harm() {
        let plan = Plan::of(1, ODDS);
        plan.end();
        assert!((0..100).all(|_| plan.for_request().is_none() && plan.for_event().is_none()));
        assert!(plan.happened().is_empty());
    }
}
