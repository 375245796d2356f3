//! A fair share of the server for everyone: how many requests are carried out at once, and who is next.
//!
//! A request belongs to a flow (its user, or its namespace) of a level of priority; `flows` says which. Each level has
//! seats of its own and may use those that are free elsewhere. Who finds no seat waits, and of those who wait each flow
//! has its turn: a caller with a thousand requests delays its own, not those of others. What cannot wait is told to come
//! back. Requests that go on and on, such as watches, are not counted.
//!
//! The levels, their shares and the lengths of the queues are the defaults of Kubernetes'
//! `apiserver/pkg/apis/flowcontrol/bootstrap/default.go`. Unlike there, every request takes one seat, and a level gets its
//! own seats back as soon as one is given up rather than by a periodic adjustment.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::Clock;
use tokio::sync::oneshot;

use crate::metrics::{Source, Text};

pub(crate) mod flows;
pub(crate) mod marks;

use flows::{FLOWS, Flow, LEVELS, Level};

/// Requests at once: 400 that read and 200 that change, as without flags.
pub(crate) const SEATS: usize = 600;
/// Of one flow so many may wait.
const FLOW_WAITING: usize = 50;
/// Of one level so many flows may wait.
const LEVEL_FLOWS: usize = 128;
/// How long to wait for a seat: a quarter of the time a request may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// The seats and the queues in front of them.
#[derive(Debug)]
pub(crate) struct Fairness {
    state: Mutex<State>,
    /// By flow schema.
    counts: [Counts; FLOWS.len()],
}

#[derive(Debug)]
struct State {
    seats: usize,
    /// The sum over all levels.
    taken: usize,
    levels: [Seats; LEVELS.len()],
}

/// The seats of one level.
#[derive(Debug, Default)]
struct Seats {
    /// How many are its own.
    nominal: usize,
    taken: usize,
    /// Flows that wait, the one whose turn it is first. No flow in here is empty.
    waiting: VecDeque<Waiting>,
}

/// The requests of one flow that wait, the oldest first.
#[derive(Debug)]
struct Waiting {
    flow: u64,
    requests: VecDeque<oneshot::Sender<Seat>>,
}

#[derive(Debug, Default)]
struct Counts {
    dispatched: AtomicU64,
    /// By reason.
    rejected: [AtomicU64; REASONS.len()],
    executing: AtomicU64,
    waiting: AtomicU64,
}

/// A seat, taken until it is dropped. Handed to a request that is gone already, it is given on.
#[derive(Debug)]
pub(crate) struct Seat {
    fairness: Arc<Fairness>,
    level: Level,
}

/// A request under way, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    _seat: Option<Seat>,
    executing: Arc<Fairness>,
    schema: usize,
}

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Its level has no queue.
    NoQueue,
    /// There is no place to wait.
    QueueFull,
    /// It has waited long enough.
    TimedOut,
}

/// The reasons by number, as metrics spell them.
const REASONS: [&str; 3] = ["concurrency-limit", "queue-full", "time-out"];

// === impl Fairness ===

impl Fairness {
    /// A server with so many seats.
    pub(crate) fn new(seats: usize) -> Arc<Self> {
        let shares: usize = LEVELS.iter().map(|level| level.shares).sum();
        let levels = LEVELS.map(|level| Seats {
            nominal: (seats * level.shares).div_ceil(shares),
            ..Seats::default()
        });
        Arc::new(Self {
            state: Mutex::new(State {
                seats,
                taken: 0,
                levels,
            }),
            counts: Default::default(),
        })
    }

    /// Waits for a seat for a request of this flow.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        flow: &Flow,
        clock: &dyn Clock,
    ) -> Result<Admitted, Rejected> {
        let counts = &self.counts[flow.schema];
        let seat = match FLOWS[flow.schema].level {
            None => None,
            Some(level) => match self.seat(level, flow, clock).await {
                Ok(seat) => Some(seat),
                Err(rejected) => {
                    counts.rejected[rejected as usize].fetch_add(1, Ordering::Relaxed);
                    return Err(rejected);
                }
            },
        };
        counts.dispatched.fetch_add(1, Ordering::Relaxed);
        counts.executing.fetch_add(1, Ordering::Relaxed);
        Ok(Admitted {
            _seat: seat,
            executing: self.clone(),
            schema: flow.schema,
        })
    }

    async fn seat(self: &Arc<Self>, level: Level, flow: &Flow, clock: &dyn Clock) -> Result<Seat, Rejected> {
        let called = match self.state.lock().take_or_wait(level, flow.key)? {
            None => return Ok(self.seat_of(level)),
            Some(called) => called,
        };
        let counts = &self.counts[flow.schema];
        counts.waiting.fetch_add(1, Ordering::Relaxed);
        let _gone = OnDrop(|| {
            counts.waiting.fetch_sub(1, Ordering::Relaxed);
        });
        tokio::select! {
            biased;
            seat = called => seat.map_err(|_| Rejected::TimedOut),
            () = clock.sleep(PATIENCE) => Err(Rejected::TimedOut),
        }
    }

    fn seat_of(self: &Arc<Self>, level: Level) -> Seat {
        Seat {
            fairness: self.clone(),
            level,
        }
    }

    /// Gives a seat up, and on to whoever is next.
    fn give_up(self: &Arc<Self>, level: Level) {
        let next = self.state.lock().give_up(level);
        if let Some((level, request)) = next {
            // A request that is gone drops the seat, which gives it on once more.
            drop(request.send(self.seat_of(level)));
        }
    }
}

// === impl State ===

impl State {
    fn has_seat(&self, level: Level) -> bool {
        let own = &self.levels[level];
        own.taken < own.nominal || self.taken < self.seats
    }

    fn take(&mut self, level: Level) {
        self.levels[level].taken += 1;
        self.taken += 1;
    }

    /// Takes a seat, or a place in the queue: then the seat comes through the channel.
    fn take_or_wait(&mut self, level: Level, flow: u64) -> Result<Option<oneshot::Receiver<Seat>>, Rejected> {
        if self.levels[level].waiting.is_empty() && self.has_seat(level) {
            self.take(level);
            return Ok(None);
        }
        if !LEVELS[level].queues {
            return Err(Rejected::NoQueue);
        }
        let waiting = &mut self.levels[level].waiting;
        let (call, called) = oneshot::channel();
        let flows = waiting.len();
        match waiting.iter_mut().find(|one| one.flow == flow) {
            Some(own) => {
                own.requests.retain(|request| !request.is_closed());
                if own.requests.len() >= FLOW_WAITING {
                    return Err(Rejected::QueueFull);
                }
                own.requests.push_back(call);
            }
            None if flows >= LEVEL_FLOWS => return Err(Rejected::QueueFull),
            None => waiting.push_back(Waiting {
                flow,
                requests: VecDeque::from([call]),
            }),
        }
        Ok(Some(called))
    }

    /// Frees a seat and takes it for the next in line: one of the same level, or else of another.
    fn give_up(&mut self, level: Level) -> Option<(Level, oneshot::Sender<Seat>)> {
        self.levels[level].taken -= 1;
        self.taken -= 1;
        let others = (0..self.levels.len()).filter(|other| *other != level);
        let mut in_order = std::iter::once(level).chain(others);
        in_order.find_map(|level| {
            if !self.has_seat(level) {
                return None;
            }
            let request = self.levels[level].next()?;
            self.take(level);
            Some((level, request))
        })
    }
}

// === impl Seats ===

impl Seats {
    /// The next request: the oldest of the flow whose turn it is, which then waits behind the others.
    fn next(&mut self) -> Option<oneshot::Sender<Seat>> {
        while let Some(mut flow) = self.waiting.pop_front() {
            let next = std::iter::from_fn(|| flow.requests.pop_front()).find(|request| !request.is_closed());
            if !flow.requests.is_empty() {
                self.waiting.push_back(flow);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.fairness.give_up(self.level);
    }
}

// === impl Admitted ===

impl Drop for Admitted {
    fn drop(&mut self) {
        self.executing.counts[self.schema]
            .executing
            .fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does something when it is dropped, also when a request is given up.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Source for Fairness {
    fn write(&self, text: &mut Text) {
        text.family(
            "apiserver_flowcontrol_nominal_limit_seats",
            "gauge",
            "Seats of each level of priority.",
        );
        for (level, seats) in LEVELS.iter().zip(&self.state.lock().levels) {
            text.sample(
                "apiserver_flowcontrol_nominal_limit_seats",
                &[("priority_level", level.name)],
                seats.nominal,
            );
        }
        self.write_rejected(text);
        for figure in &FIGURES {
            text.family(figure.name, figure.kind, figure.help);
            for (flow, counts) in FLOWS.iter().zip(&self.counts) {
                let labels = [("flow_schema", flow.name), ("priority_level", flow.level_name())];
                text.sample(figure.name, &labels, (figure.of)(counts).load(Ordering::Relaxed));
            }
        }
    }
}

impl Fairness {
    fn write_rejected(&self, text: &mut Text) {
        const NAME: &str = "apiserver_flowcontrol_rejected_requests_total";
        text.family(NAME, "counter", "Requests turned away.");
        for (flow, counts) in FLOWS.iter().zip(&self.counts) {
            for (reason, count) in REASONS.iter().zip(&counts.rejected) {
                let labels = [
                    ("flow_schema", flow.name),
                    ("priority_level", flow.level_name()),
                    ("reason", reason),
                ];
                text.sample(NAME, &labels, count.load(Ordering::Relaxed));
            }
        }
    }
}

/// A figure about each flow schema.
struct Figure {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    of: fn(&Counts) -> &AtomicU64,
}

#[rustfmt::skip]
const FIGURES: [Figure; 4] = [
    Figure { name: "apiserver_flowcontrol_current_executing_requests", kind: "gauge", help: "Requests under way.", of: |one| &one.executing },
    Figure { name: "apiserver_flowcontrol_current_executing_seats", kind: "gauge", help: "Seats taken.", of: |one| &one.executing },
    Figure { name: "apiserver_flowcontrol_current_inqueue_requests", kind: "gauge", help: "Requests that wait.", of: |one| &one.waiting },
    Figure { name: "apiserver_flowcontrol_dispatched_requests_total", kind: "counter", help: "Requests carried out.", of: |one| &one.dispatched },
];

#[cfg(test)]
mod tests;
