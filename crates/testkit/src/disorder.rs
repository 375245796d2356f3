//! A server whose watches go wrong: events come late, in another order, or not at all.
//!
//! Every watch has its own dice, so events of different resources overtake each other; events of different objects of
//! one resource may, too. The order of the events of one object is kept, as every server keeps it. A watch that has lost
//! an event goes on as if nothing had happened, and breaks off some time later: that is when its reader, who lists anew,
//! learns what it has missed. The seed decides what happens to which event of which watch.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use setpoint_api::{Body, Clock, Event, Gvr, Reply, Request, Response, Serve, Status, Verb, Watch};

use crate::clock::SteppedClock;

/// A server behind a link that disturbs its watches.
pub struct Disorder {
    serve: Arc<dyn Serve>,
    clock: SteppedClock,
    seed: u64,
    odds: Odds,
    /// How many watches of each resource there have been: the next one's dice follow from it.
    watches: Mutex<HashMap<Gvr, u64>>,
    harm: Arc<Harm>,
}

/// How often something goes wrong, in hundredths of all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odds {
    /// Events that come late.
    pub late: u32,
    /// Events that change places with the next.
    pub swapped: u32,
    /// Events that do not come.
    pub lost: u32,
    /// Watches that break off.
    pub broken: u32,
}

/// What has gone wrong so far.
#[derive(Debug, Default)]
pub struct Harm {
    /// Events that come late.
    pub late: AtomicUsize,
    /// Events that change places with the next.
    pub swapped: AtomicUsize,
    /// Events that do not come.
    pub lost: AtomicUsize,
    /// Watches that break off.
    pub broken: AtomicUsize,
}

/// One watch and what is about to happen to it.
struct Disturbed {
    watch: Watch,
    clock: SteppedClock,
    dice: StdRng,
    odds: Odds,
    harm: Arc<Harm>,
    /// To be told before anything else.
    ready: VecDeque<Event>,
    /// The state that the watch begins with is told as it is.
    is_initial: bool,
    /// When it breaks off because it has lost something.
    breaks: Option<Sleep>,
    is_over: bool,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The longest that an event is late.
const LATE_MILLIS: u64 = 4000;
/// How long the one waits that shall be overtaken.
const SWAP: Duration = Duration::from_secs(1);
/// The longest that a loss goes unnoticed.
const LOST_MILLIS: u64 = 30_000;

// === impl Odds ===

impl Odds {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        late: 0,
        swapped: 0,
        lost: 0,
        broken: 0,
    };

    /// From hardly anything to nearly everything, by the seed.
    fn of(dice: &mut StdRng) -> Self {
        Self {
            late: dice.random_range(0..50),
            swapped: dice.random_range(0..30),
            lost: dice.random_range(0..15),
            broken: dice.random_range(0..5),
        }
    }
}

// === impl Disorder ===

impl Disorder {
    /// The server, disturbed as the seed says; without one, not at all.
    pub fn new(serve: Arc<dyn Serve>, clock: SteppedClock, seed: Option<u64>) -> Self {
        let odds = seed.map_or(Odds::NONE, |seed| Odds::of(&mut StdRng::seed_from_u64(seed)));
        Self {
            serve,
            clock,
            seed: seed.unwrap_or(0),
            odds,
            watches: Mutex::default(),
            harm: Arc::default(),
        }
    }

    /// What has gone wrong so far.
    pub fn harm(&self) -> &Arc<Harm> {
        &self.harm
    }

    /// The dice of the next watch of a resource.
    fn dice(&self, resource: &Gvr) -> StdRng {
        let mut watches = self.watches.lock();
        let number = watches.entry(resource.clone()).or_default();
        *number += 1;
        let name = resource.group_resource().to_string();
        let mixed = name.bytes().fold(self.seed, |mixed, byte| {
            (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        StdRng::seed_from_u64(mixed.wrapping_add(*number))
    }

    async fn watch(&self, request: Request, is_initial: bool) -> Result<Response, Status> {
        let dice = self.dice(&request.target.resource);
        let mut response = self.serve.call(request).await?;
        if let Body::Watch(watch) = response.body {
            let disturbed = Disturbed {
                watch,
                clock: self.clock.clone(),
                dice,
                odds: self.odds,
                harm: self.harm.clone(),
                ready: VecDeque::new(),
                is_initial,
                breaks: None,
                is_over: false,
            };
            let events = stream::unfold(disturbed, |mut own| async move {
                let event = own.next().await?;
                Some((event, own))
            });
            // A reader may look once more after the end.
            response.body = Body::Watch(Box::pin(events.fuse()));
        }
        Ok(response)
    }
}

impl Serve for Disorder {
    fn call(&self, request: Request) -> Reply<'_> {
        match &request.verb {
            Verb::Watch(options) => {
                let is_initial = options.send_initial_events == Some(true);
                Box::pin(self.watch(request, is_initial))
            }
            _ => self.serve.call(request),
        }
    }
}

impl fmt::Debug for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disorder")
            .field("seed", &self.seed)
            .field("odds", &self.odds)
            .field("harm", &self.harm)
            .finish_non_exhaustive()
    }
}

// === impl Disturbed ===

impl Disturbed {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let event = match &mut self.breaks {
                None => Some(next_of(&mut self.watch).await?),
                Some(breaks) => tokio::select! {
                    biased;
                    () = breaks => None,
                    event = next_of(&mut self.watch) => Some(event?),
                },
            };
            let Some(event) = event else {
                return Some(self.break_off());
            };
            if self.is_initial {
                self.is_initial = !matches!(&event, Event::Bookmark(mark) if mark.initial_events_end);
                return Some(event);
            }
            if let Some(event) = self.disturb(event).await {
                return Some(event);
            }
        }
    }

    /// The event, if it is to be told next.
    async fn disturb(&mut self, event: Event) -> Option<Event> {
        if matches!(event, Event::Error(_)) {
            return Some(event);
        }
        if self.rolls(self.odds.broken) {
            return Some(self.break_off());
        }
        if self.rolls(self.odds.lost) && !matches!(event, Event::Bookmark(_)) {
            count(&self.harm.lost);
            let until = self.millis(LOST_MILLIS);
            self.breaks.get_or_insert_with(|| self.clock.sleep(until));
            return None;
        }
        if self.rolls(self.odds.late) {
            count(&self.harm.late);
            let late = self.millis(LATE_MILLIS);
            self.clock.sleep(late).await;
        }
        if self.rolls(self.odds.swapped) {
            self.swap(event).await;
            return None;
        }
        Some(event)
    }

    /// Lets the next event overtake this one, if it comes soon and is of another object.
    async fn swap(&mut self, event: Event) {
        let next = tokio::select! {
            biased;
            next = next_of(&mut self.watch) => next,
            () = self.clock.sleep(SWAP) => {
                self.ready.push_back(event);
                return;
            }
        };
        self.is_over = next.is_none();
        match next {
            Some(next) if are_of_two(&event, &next) => {
                count(&self.harm.swapped);
                self.ready.extend([next, event]);
            }
            next => self.ready.extend([Some(event), next].into_iter().flatten()),
        }
    }

    /// Ends the watch so that its reader must list anew.
    fn break_off(&mut self) -> Event {
        count(&self.harm.broken);
        self.is_over = true;
        Event::Error(Box::new(Status::expired("the watch has broken off")))
    }

    fn rolls(&mut self, odds: u32) -> bool {
        self.dice.random_range(0..100) < odds
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.dice.random_range(1..=most))
    }
}

async fn next_of(watch: &mut Watch) -> Option<Event> {
    poll_fn(|cx| watch.as_mut().poll_next(cx)).await
}

/// Whether both are about objects, and not about the same.
fn are_of_two(one: &Event, other: &Event) -> bool {
    let key = |event: &Event| match event {
        Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => Some(object.key().clone()),
        Event::Bookmark(_) | Event::Error(_) => None,
    };
    let (one, other) = (key(one), key(other));
    one.is_some() && other.is_some() && one != other
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}
