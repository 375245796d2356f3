//! [`WatchFaults`]: a server whose watch events are delayed, reordered or lost.
//!
//! Every watch has its own random generator, so events of different resources overtake each other; events of different
//! objects of one resource may, too. The order of the events of one object is kept, as every server keeps it. A watch that
//! has lost an event goes on, and breaks off some time later: its reader lists again and sees what it has missed. The seed
//! decides what happens to which event of which watch.

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
use setpoint_api::{Body, Clock, Event, Gvr, Request, Response, Serve, ServeFuture, Status, Verb, Watch};

use crate::clock::SteppedClock;

/// A [`Serve`] around a server that injects faults into its watches.
pub struct WatchFaults {
    serve: Arc<dyn Serve>,
    clock: SteppedClock,
    seed: u64,
    rates: WatchFaultRates,
    /// How many watches of each resource there have been: part of the seed of the next one.
    watches: Mutex<HashMap<Gvr, u64>>,
    counts: Arc<FaultCounts>,
}

/// How often each fault occurs, in percent of all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchFaultRates {
    /// Delayed events.
    pub late: u32,
    /// Events swapped with the next.
    pub swapped: u32,
    /// Lost events.
    pub lost: u32,
    /// Watches that break off.
    pub broken: u32,
}

/// How many faults of each kind were injected so far.
#[derive(Debug, Default)]
pub struct FaultCounts {
    /// Delayed events.
    pub late: AtomicUsize,
    /// Events swapped with the next.
    pub swapped: AtomicUsize,
    /// Lost events.
    pub lost: AtomicUsize,
    /// Watches that break off.
    pub broken: AtomicUsize,
}

/// A watch with its pending faults.
struct FaultyWatch {
    watch: Watch,
    clock: SteppedClock,
    rng: StdRng,
    rates: WatchFaultRates,
    counts: Arc<FaultCounts>,
    /// Events to deliver before any other.
    ready: VecDeque<Event>,
    /// The initial events are delivered without faults.
    is_initial: bool,
    /// When it breaks off because it has lost an event.
    break_at: Option<Sleep>,
    is_over: bool,
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The longest delay of an event.
const MAX_DELAY_MILLIS: u64 = 4000;
/// How long an event waits for the next one to swap with.
const SWAP_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest time from a lost event to the end of its watch.
const MAX_UNNOTICED_LOSS_MILLIS: u64 = 30_000;

// === impl WatchFaultRates ===

impl WatchFaultRates {
    /// No faults.
    pub const NONE: Self = Self {
        late: 0,
        swapped: 0,
        lost: 0,
        broken: 0,
    };

    /// Random rates, from few faults to many.
    fn random(rng: &mut StdRng) -> Self {
        Self {
            late: rng.random_range(0..50),
            swapped: rng.random_range(0..30),
            lost: rng.random_range(0..15),
            broken: rng.random_range(0..5),
        }
    }
}

// === impl WatchFaults ===

impl WatchFaults {
    /// The server, with faults by the seed; without a seed, none.
    pub fn new(serve: Arc<dyn Serve>, clock: SteppedClock, seed: Option<u64>) -> Self {
        let rates = seed.map_or(WatchFaultRates::NONE, |seed| {
            WatchFaultRates::random(&mut StdRng::seed_from_u64(seed))
        });
        Self {
            serve,
            clock,
            seed: seed.unwrap_or(0),
            rates,
            watches: Mutex::default(),
            counts: Arc::default(),
        }
    }

    /// How many faults were injected so far.
    pub fn counts(&self) -> &Arc<FaultCounts> {
        &self.counts
    }

    /// The random generator of the next watch of a resource.
    fn rng(&self, resource: &Gvr) -> StdRng {
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
        let rng = self.rng(&request.target.resource);
        let mut response = self.serve.call(request).await?;
        if let Body::Watch(watch) = response.body {
            let faulty = FaultyWatch {
                watch,
                clock: self.clock.clone(),
                rng,
                rates: self.rates,
                counts: self.counts.clone(),
                ready: VecDeque::new(),
                is_initial,
                break_at: None,
                is_over: false,
            };
            let events = stream::unfold(faulty, |mut own| async move {
                let event = own.next().await?;
                Some((event, own))
            });
            // A reader may poll once more after the end.
            response.body = Body::Watch(Box::pin(events.fuse()));
        }
        Ok(response)
    }
}

impl Serve for WatchFaults {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        match &request.verb {
            Verb::Watch(options) => {
                let is_initial = options.send_initial_events == Some(true);
                Box::pin(self.watch(request, is_initial))
            }
            _ => self.serve.call(request),
        }
    }
}

impl fmt::Debug for WatchFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchFaults")
            .field("seed", &self.seed)
            .field("rates", &self.rates)
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

// === impl FaultyWatch ===

impl FaultyWatch {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            let event = match &mut self.break_at {
                None => Some(next_of(&mut self.watch).await?),
                Some(break_at) => tokio::select! {
                    biased;
                    () = break_at => None,
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
            if let Some(event) = self.inject(event).await {
                return Some(event);
            }
        }
    }

    /// Injects a fault, or none. Returns the event if it is to be delivered next.
    async fn inject(&mut self, event: Event) -> Option<Event> {
        if matches!(event, Event::Error(_)) {
            return Some(event);
        }
        if self.happens(self.rates.broken) {
            return Some(self.break_off());
        }
        if self.happens(self.rates.lost) && !matches!(event, Event::Bookmark(_)) {
            count(&self.counts.lost);
            let until = self.millis(MAX_UNNOTICED_LOSS_MILLIS);
            self.break_at.get_or_insert_with(|| self.clock.sleep(until));
            return None;
        }
        if self.happens(self.rates.late) {
            count(&self.counts.late);
            let late = self.millis(MAX_DELAY_MILLIS);
            self.clock.sleep(late).await;
        }
        if self.happens(self.rates.swapped) {
            self.swap(event).await;
            return None;
        }
        Some(event)
    }

    /// Swaps this event with the next one, if that comes soon and is of another object.
    async fn swap(&mut self, event: Event) {
        let next = tokio::select! {
            biased;
            next = next_of(&mut self.watch) => next,
            () = self.clock.sleep(SWAP_TIMEOUT) => {
                self.ready.push_back(event);
                return;
            }
        };
        self.is_over = next.is_none();
        match next {
            Some(next) if are_different_objects(&event, &next) => {
                count(&self.counts.swapped);
                self.ready.extend([next, event]);
            }
            next => self.ready.extend([Some(event), next].into_iter().flatten()),
        }
    }

    /// Ends the watch so that its reader must list again.
    fn break_off(&mut self) -> Event {
        count(&self.counts.broken);
        self.is_over = true;
        Event::Error(Box::new(Status::expired("the watch has broken off")))
    }

    fn happens(&mut self, rates: u32) -> bool {
        self.rng.random_range(0..100) < rates
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.random_range(1..=most))
    }
}

async fn next_of(watch: &mut Watch) -> Option<Event> {
    poll_fn(|cx| watch.as_mut().poll_next(cx)).await
}

/// Whether both are events of objects, and of different ones.
fn are_different_objects(one: &Event, other: &Event) -> bool {
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
