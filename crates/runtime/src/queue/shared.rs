//! [`Queue`]: the state behind one lock, and the notifications of waiting workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Clock, Key};

use super::metrics::Metrics;
use super::rate_limiter::RateLimits;
use super::ready::{LaneOf, Priority};
use super::state::{Stage, State};
use super::sync::{Mutex, Notify};
use crate::reconcile::Item;

/// Options of a queue: rate limits, priorities and lanes.
#[derive(Clone)]
pub struct Options<K: Item = Key> {
    /// The rate limits of retries.
    pub limits: RateLimits,
    /// The waiting time that makes up for one unit of priority.
    pub wait_per_priority: Duration,
    /// Items of different lanes take turns; if `None`, there is one lane.
    pub lane_of: Option<LaneOf<K>>,
}

/// A rate-limiting work queue of keys (client-go's `RateLimitingInterface`). Cloning shares it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use setpoint_api::SystemClock;
/// use setpoint_runtime::Queue;
/// use std::sync::Arc;
///
/// let queue: Queue<&str> = Queue::new(Arc::new(SystemClock::new()));
/// queue.add("web");
/// queue.add("web");
/// let item = queue.get().await.expect("the queue is open");
/// queue.add("web");
/// assert_eq!(queue.len(), 0, "no other worker gets it while it is processing");
/// drop(item);
/// assert_eq!(queue.len(), 1, "it was added meanwhile, so it is ready again, once");
///
/// // After a failure: with a longer delay each time, until it is forgotten.
/// queue.add_rate_limited("db");
/// assert_eq!(queue.num_requeues(&"db"), 1);
/// queue.forget(&"db");
/// # }
/// ```
pub struct Queue<K: Item = Key> {
    pub(super) shared: Arc<Shared<K>>,
}

/// An item that a worker processes: no other worker gets it until this is dropped (client-go's `Done`).
#[must_use = "dropping it marks the item as done"]
pub struct ItemGuard<K: Item = Key> {
    item: K,
    queue: Queue<K>,
}

pub(super) struct Shared<K: Item> {
    pub(super) state: Mutex<State<K>>,
    clock: Arc<dyn Clock>,
    /// Notified when an item is ready, when no worker runs the timer, and when the queue shuts down.
    ready: Notify,
    /// Notified when the next delayed item is due earlier than before.
    earlier: Notify,
    /// Notified when the last item in process is done, and when a drain is aborted.
    idle: Notify,
}

/// Held by the worker that runs the timer for all; on drop another worker takes over.
struct TimerGuard<'a, K: Item>(&'a Shared<K>);

/// Ten seconds of waiting make up for a priority of -100.
const WAIT_PER_PRIORITY: Duration = Duration::from_millis(100);

// === impl Options ===

impl<K: Item> Default for Options<K> {
    fn default() -> Self {
        Self {
            limits: RateLimits::default(),
            wait_per_priority: WAIT_PER_PRIORITY,
            lane_of: None,
        }
    }
}

impl<K: Item> fmt::Debug for Options<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits)
            .field("wait_per_priority", &self.wait_per_priority)
            .field("lanes", &self.lane_of.is_some())
            .finish()
    }
}

// === impl Queue ===

impl<K: Item> Queue<K> {
    /// An empty queue with client-go's limits.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(clock, RateLimits::default())
    }

    /// An empty queue with other rate limits.
    pub fn with_limits(clock: Arc<dyn Clock>, limits: RateLimits) -> Self {
        let options = Options::default();
        Self::with(clock, Options { limits, ..options })
    }

    /// An empty queue with these options.
    pub fn with(clock: Arc<dyn Clock>, options: Options<K>) -> Self {
        let shared = Shared {
            state: Mutex::new(State::new(options)),
            clock,
            ready: Notify::new(),
            earlier: Notify::new(),
            idle: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Adds an item, unless it is already dirty. A queue that is shutting down accepts nothing.
    pub fn add(&self, item: K) {
        self.add_with(item, Priority::DEFAULT);
    }

    /// Adds an item with a priority. If it is already dirty, the higher priority counts.
    pub fn add_with(&self, item: K, priority: Priority) {
        let now = self.shared.clock.now();
        if self.shared.state.lock().add(item, priority, now) {
            self.shared.ready.notify_one();
        }
    }

    /// Adds an item after a delay.
    pub fn add_after(&self, item: K, delay: Duration) {
        if delay.is_zero() {
            let priority = self.shared.state.lock().priority_of(&item);
            return self.add_with(item, priority);
        }
        let now = self.shared.clock.now();
        let at = now.saturating_add(delay).unwrap_or(jiff::Timestamp::MAX);
        if self.shared.state.lock().delay(item, at) {
            self.shared.earlier.notify_one();
        }
    }

    /// Adds an item that failed, with a longer delay each time until it is forgotten.
    pub fn add_rate_limited(&self, item: K) {
        let delay = self
            .shared
            .state
            .lock()
            .next_delay(&item, self.shared.clock.now());
        self.add_after(item, delay);
    }

    /// Resets the failure count of an item. This does not mark it as done.
    pub fn forget(&self, item: &K) {
        self.shared.state.lock().forget(item);
    }

    /// The number of failures of an item since it was last forgotten.
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.shared.state.lock().failures(item)
    }

    /// The number of items that are ready.
    pub fn len(&self) -> usize {
        self.shared.state.lock().len(self.shared.clock.now())
    }

    /// Whether no item is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items in process, sorted.
    pub fn processing(&self) -> Vec<K> {
        self.shared.state.lock().processing()
    }

    /// The next item, waiting for one; `None` once the queue has shut down and is empty.
    pub async fn get(&self) -> Option<ItemGuard<K>> {
        // Kept through the loop: handing the timer over in each iteration would make the workers wake each other.
        let mut timer = None;
        loop {
            let ready = self.shared.ready.notified();
            match self.shared.step() {
                Step::Take(item) => return Some(ItemGuard::new(item, self)),
                Step::End => return None,
                Step::Wait => timer = timer.or_else(|| self.shared.claim_timer()),
            }
            match &timer {
                None => ready.await,
                Some(timer) => tokio::select! {
                    biased;
                    () = ready => {}
                    () = timer.wait_due() => {}
                },
            }
        }
    }

    /// Shuts down: no item is accepted any more; those that are ready are still handed out. Aborts a drain.
    pub fn shut_down(&self) {
        self.shared.state.lock().shut_down(Stage::ShutDown);
        self.shared.ready.notify_waiters();
        self.shared.ready.notify_one();
        self.shared.idle.notify_waiters();
    }

    /// Shuts down and waits until no item is in process.
    pub async fn shut_down_with_drain(&self) {
        self.shared.state.lock().shut_down(Stage::Draining);
        self.shared.ready.notify_waiters();
        self.shared.ready.notify_one();
        loop {
            let idle = self.shared.idle.notified();
            if self.shared.state.lock().is_drained() {
                return;
            }
            idle.await;
        }
    }

    /// Whether the queue no longer accepts items.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.lock().stage() != Stage::Open
    }

    /// The current metrics of the queue.
    pub fn metrics(&self) -> Metrics {
        self.shared.state.lock().metrics(self.shared.clock.now())
    }

    fn done(&self, item: &K) {
        let mut state = self.shared.state.lock();
        let again = state.done(item, self.shared.clock.now());
        let idle = state.is_idle();
        drop(state);
        if again {
            self.shared.ready.notify_one();
        }
        if idle {
            self.shared.idle.notify_waiters();
        }
    }
}

impl<K: Item> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<K: Item> fmt::Debug for Queue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&*self.shared.state.lock()).finish()
    }
}

// === impl Taken ===

impl<K: Item> ItemGuard<K> {
    fn new(item: K, queue: &Queue<K>) -> Self {
        let queue = queue.clone();
        Self { item, queue }
    }

    /// The item.
    pub fn item(&self) -> &K {
        &self.item
    }
}

impl<K: Item> Drop for ItemGuard<K> {
    fn drop(&mut self) {
        self.queue.done(&self.item);
    }
}

impl<K: Item> fmt::Debug for ItemGuard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&self.item).finish()
    }
}

// === impl Shared ===

/// The next step of a worker in [`Queue::get`].
enum Step<K> {
    Take(K),
    End,
    Wait,
}

impl<K: Item> Shared<K> {
    fn step(&self) -> Step<K> {
        let mut state = self.state.lock();
        match state.take(self.clock.now()) {
            Some(item) => Step::Take(item),
            None if state.stage() == Stage::Open => Step::Wait,
            None => Step::End,
        }
    }

    fn claim_timer(&self) -> Option<TimerGuard<'_, K>> {
        let claimed = self.state.lock().claim_timer();
        claimed.then(|| TimerGuard(self))
    }
}

// === impl TimerGuard ===

impl<K: Item> TimerGuard<'_, K> {
    /// Resolves when the next delayed item is due, or when it is due earlier than before.
    async fn wait_due(&self) {
        let earlier = self.0.earlier.notified();
        let due = self.0.state.lock().next_due();
        let Some(due) = due else {
            return earlier.await;
        };
        let wait = due.duration_since(self.0.clock.now());
        let sleep = self.0.clock.sleep(wait.try_into().unwrap_or_default());
        // The clock may have moved since it was read, and a sleep counts from when it begins.
        if self.0.clock.now() >= due {
            return;
        }
        tokio::select! {
            biased;
            () = earlier => {}
            () = sleep => {}
        }
    }
}

impl<K: Item> Drop for TimerGuard<'_, K> {
    fn drop(&mut self) {
        self.0.state.lock().release_timer();
        self.0.ready.notify_one();
    }
}
