//! The work queue under many interleavings: shuttle decides which task runs next, at every lock and every notification.
//!
//! These are the queue's own files, with shuttle's lock and a `Notify` made of it instead of `sync.rs`. A wake-up that
//! is lost shows as a deadlock, which shuttle detects.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "only a part of the queue is used here"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../src/queue/delay.rs"]
mod delay;
#[path = "../../src/queue/metrics.rs"]
mod metrics;
#[path = "../../src/queue/rate_limiter.rs"]
mod rate_limiter;
#[path = "../../src/queue/ready.rs"]
mod ready;
#[path = "../../src/queue/shared.rs"]
mod shared;
#[path = "../../src/queue/state.rs"]
mod state;

mod clock;
mod sync;

/// The modules that the queue's files import from their own crate.
mod reconcile {
    pub(crate) use setpoint_runtime::reconcile::Item;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::future::{JoinHandle, block_on, spawn, yield_now};

use clock::ModelClock;
use shared::{Options, Queue};
use sync::Notify;

const KEYS: usize = 2;
/// The number of interleavings of each scenario: half of them random, half by random priority changes (PCT).
const ORDERS: usize = 400;
/// The number of priority changes in the latter.
const CHANGES: usize = 3;

/// The shared state of each key.
#[derive(Default)]
struct Ledger {
    busy: [AtomicBool; KEYS],
    /// The number of adds, and how many of them a run has covered.
    wanted: [AtomicUsize; KEYS],
    seen: [AtomicUsize; KEYS],
    /// Notified after each run.
    ran: Notify,
}

impl Ledger {
    fn add(&self, queue: &Queue<usize>, key: usize) {
        self.wanted[key].fetch_add(1, Ordering::SeqCst);
        queue.add(key);
    }

    /// Resolves once every add so far was followed by a run. If a wake-up is lost, no task is runnable, which shuttle detects.
    async fn all_seen(&self) {
        loop {
            let ran = self.ran.notified();
            if (0..KEYS).all(|key| self.is_seen(key)) {
                return;
            }
            ran.await;
        }
    }

    fn is_seen(&self, key: usize) -> bool {
        self.seen[key].load(Ordering::SeqCst) >= self.wanted[key].load(Ordering::SeqCst)
    }

    /// Every add was followed by a run, and no worker has an item.
    fn check(&self, queue: &Queue<usize>) {
        queue.shared.state.lock().check();
        assert!(queue.is_empty() && queue.processing().is_empty());
        for key in 0..KEYS {
            let (wanted, seen) = (&self.wanted[key], &self.seen[key]);
            assert_eq!(
                seen.load(Ordering::SeqCst),
                wanted.load(Ordering::SeqCst),
                "key {key}"
            );
        }
    }
}

/// Runs a worker until the queue ends. No other worker has its key meanwhile.
fn worker(queue: &Queue<usize>, ledger: &Arc<Ledger>) -> JoinHandle<()> {
    let (queue, ledger) = (queue.clone(), ledger.clone());
    spawn(async move {
        while let Some(taken) = queue.get().await {
            let key = *taken.item();
            assert!(
                !ledger.busy[key].swap(true, Ordering::SeqCst),
                "two workers on {key}"
            );
            let wanted = ledger.wanted[key].load(Ordering::SeqCst);
            yield_now().await;
            ledger.seen[key].fetch_max(wanted, Ordering::SeqCst);
            ledger.busy[key].store(false, Ordering::SeqCst);
            drop(taken);
            ledger.ran.notify_one();
        }
    })
}

fn model() -> (Queue<usize>, ModelClock, Arc<Ledger>) {
    let clock = ModelClock::default();
    (Queue::new(Arc::new(clock.clone())), clock, Arc::default())
}

fn try_orders(scenario: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(scenario.clone(), ORDERS / 2);
    shuttle::check_pct(scenario, ORDERS / 2, CHANGES);
}

/// WQ4: never two workers on one key; an add while a key is in process is followed by one more run.
#[test]
fn wq4_no_order_of_events_gives_a_key_to_two_workers_or_loses_an_add() {
    try_orders(|| {
        block_on(async {
            let (queue, _, ledger) = model();
            let workers: Vec<_> = (0..3).map(|_| worker(&queue, &ledger)).collect();
            let adders = (0..2).map(|first| {
                let (queue, ledger) = (queue.clone(), ledger.clone());
                spawn(async move {
                    for i in 0..3 {
                        ledger.add(&queue, (first + i) % KEYS);
                        yield_now().await;
                    }
                })
            });
            for adder in adders.collect::<Vec<_>>() {
                adder.await.unwrap();
            }
            queue.shut_down();
            for worker in workers {
                worker.await.unwrap();
            }
            ledger.check(&queue);
        });
    });
}

/// TR2: whichever worker runs the timer, due items are handed out, and an item that is due earlier is noticed.
#[test]
fn tr2_no_order_of_events_loses_a_delayed_item() {
    try_orders(|| {
        block_on(async {
            let (queue, clock, ledger) = model();
            let workers: Vec<_> = (0..2).map(|_| worker(&queue, &ledger)).collect();
            let (own, book) = (queue.clone(), ledger.clone());
            let adder = spawn(async move {
                for (key, delay) in [(0, 9), (1, 5), (0, 2)] {
                    book.wanted[key].fetch_add(1, Ordering::SeqCst);
                    own.add_after(key, Duration::from_secs(delay));
                    yield_now().await;
                }
            });
            let hand = clock.clone();
            let time = spawn(async move {
                for _ in 0..12 {
                    hand.advance(1);
                    yield_now().await;
                }
            });
            adder.await.unwrap();
            time.await.unwrap();
            clock.advance(20);
            // Only the timer wakes them; a queue that ended now would drop the delayed items.
            ledger.all_seen().await;
            queue.shut_down();
            for worker in workers {
                worker.await.unwrap();
            }
            ledger.check(&queue);
        });
    });
}

/// If the worker with the timer is dropped, another takes over.
#[test]
fn no_order_of_events_leaves_the_timer_without_a_worker() {
    try_orders(|| {
        block_on(async {
            let (queue, clock, ledger) = model();
            let (leaver, stays) = (queue.clone(), worker(&queue, &ledger));
            let leaves = spawn(async move {
                let mut waiting = std::pin::pin!(leaver.get());
                for _ in 0..3 {
                    // Its item becomes ready for the others.
                    let polled =
                        std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx))).await;
                    if let std::task::Poll::Ready(taken) = polled {
                        let key = taken.map(|taken| *taken.item());
                        key.into_iter().for_each(|key| leaver.add(key));
                        return;
                    }
                    yield_now().await;
                }
            });
            ledger.wanted[0].fetch_add(1, Ordering::SeqCst);
            queue.add_after(0, Duration::from_secs(5));
            yield_now().await;
            clock.advance(5);
            leaves.await.unwrap();
            ledger.all_seen().await;
            queue.shut_down();
            stays.await.unwrap();
            ledger.check(&queue);
        });
    });
}

/// WQ8: a drain ends when the items in process are done, not before, and nothing is accepted.
#[test]
fn wq8_no_order_of_events_ends_a_drain_early_or_never() {
    try_orders(|| {
        block_on(async {
            let (queue, _, ledger) = model();
            queue.add(0);
            let (taken, done) = (queue.get().await.unwrap(), Arc::new(AtomicBool::new(false)));
            let own = done.clone();
            let first = spawn(async move {
                yield_now().await;
                own.store(true, Ordering::SeqCst);
                drop(taken);
            });
            ledger.add(&queue, 1);
            let second = worker(&queue, &ledger);
            queue.shut_down_with_drain().await;
            assert!(done.load(Ordering::SeqCst), "a drain waits for what is in work");
            queue.add(0);
            first.await.unwrap();
            second.await.unwrap();
            ledger.check(&queue);
        });
    });
}

/// WQ6: failures, each with its delay, until the item succeeds.
#[test]
fn wq6_no_order_of_events_loses_a_retry() {
    try_orders(|| {
        block_on(async {
            let ((queue, clock, ledger), runs) = (model(), Arc::new(AtomicUsize::new(0)));
            let (own, count, book) = (queue.clone(), runs.clone(), ledger.clone());
            let worker = spawn(async move {
                while let Some(taken) = own.get().await {
                    match count.fetch_add(1, Ordering::SeqCst) {
                        0 | 1 => own.add_rate_limited(*taken.item()),
                        _ => own.forget(taken.item()),
                    }
                    drop(taken);
                    book.ran.notify_one();
                }
            });
            queue.add(0);
            for _ in 0..3 {
                ledger.ran.notified().await;
                clock.advance(1);
            }
            queue.shut_down();
            worker.await.unwrap();
            assert_eq!((runs.load(Ordering::SeqCst), queue.num_requeues(&0)), (3, 0));
        });
    });
}
