//! [`Queue`]: one state behind one lock, and the bells that wake those who wait for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Clock, Key};

use super::backoff::Limits;
use super::metrics::Metrics;
use super::order::{LaneOf, Priority};
use super::state::{Stage, State};
use super::sync::{Mutex, Notify};
use crate::reconcile::Item;

/// How a queue slows retries down and whom it serves first.
#[derive(Clone)]
pub struct Options<K: Item = Key> {
    /// How retries are slowed down.
    pub limits: Limits,
    /// How much waiting makes up for a point of priority.
    pub point: Duration,
    /// Items of different lanes take turns; without, there is one lane.
    pub lane_of: Option<LaneOf<K>>,
}

/// A queue of keys. Cloning shares it.
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
/// let taken = queue.get().await.expect("the queue is open");
/// queue.add("web");
/// assert_eq!(queue.len(), 0, "nobody else gets it while somebody works on it");
/// drop(taken);
/// assert_eq!(queue.len(), 1, "it changed meanwhile, so it comes again, once");
///
/// // After a failure: later each time, until it is forgotten.
/// queue.add_rate_limited("db");
/// assert_eq!(queue.num_requeues(&"db"), 1);
/// queue.forget(&"db");
/// # }
/// ```
pub struct Queue<K: Item = Key> {
    pub(super) shared: Arc<Shared<K>>,
}

/// An item that a worker has: nobody else gets it until this is dropped.
#[must_use = "dropping it says that the work is done"]
pub struct Taken<K: Item = Key> {
    item: K,
    queue: Queue<K>,
}

pub(super) struct Shared<K: Item> {
    pub(super) state: Mutex<State<K>>,
    clock: Arc<dyn Clock>,
    /// Told when an item is ready, when nobody keeps the time, and when the queue shuts down.
    ready: Notify,
    /// Told when the time to wait for has come closer.
    earlier: Notify,
    /// Told when the last item in work is done, and when a drain is broken off.
    idle: Notify,
}

/// Keeps the time for all who wait, and hands the duty on when it leaves.
struct Timekeeper<'a, K: Item>(&'a Shared<K>);

/// A priority of -100 is made up for by ten seconds of waiting.
const POINT: Duration = Duration::from_millis(100);

// === impl Options ===

impl<K: Item> Default for Options<K> {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            point: POINT,
            lane_of: None,
        }
    }
}

impl<K: Item> fmt::Debug for Options<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits)
            .field("point", &self.point)
            .field("lanes", &self.lane_of.is_some())
            .finish()
    }
}

// === impl Queue ===

impl<K: Item> Queue<K> {
    /// An empty queue with client-go's limits.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(clock, Limits::default())
    }

    /// A queue that slows retries down by other limits.
    pub fn with_limits(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let options = Options::default();
        Self::with(clock, Options { limits, ..options })
    }

    /// An empty queue.
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

    /// The item wants attention. A dirty item already does; a queue that shuts down takes nothing.
    pub fn add(&self, item: K) {
        self.add_with(item, Priority::CHANGE);
    }

    /// The item wants attention, so urgently. Of several wishes the most urgent counts.
    pub fn add_with(&self, item: K, priority: Priority) {
        let now = self.shared.clock.now();
        if self.shared.state.lock().add(item, priority, now) {
            self.shared.ready.notify_one();
        }
    }

    /// The item wants attention after a while.
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

    /// The item failed and wants another try, later each time until it is forgotten.
    pub fn add_rate_limited(&self, item: K) {
        let delay = self.shared.state.lock().fail(&item, self.shared.clock.now());
        self.add_after(item, delay);
    }

    /// The item is well: its failures count no more. It must still be done with.
    pub fn forget(&self, item: &K) {
        self.shared.state.lock().forget(item);
    }

    /// How often the item has failed since it was last forgotten.
    pub fn num_requeues(&self, item: &K) -> u32 {
        self.shared.state.lock().failures(item)
    }

    /// How many items are ready.
    pub fn len(&self) -> usize {
        self.shared.state.lock().len(self.shared.clock.now())
    }

    /// Whether nothing is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items that workers have, in order.
    pub fn in_work(&self) -> Vec<K> {
        self.shared.state.lock().in_work()
    }

    /// The next item, waiting for one; `None` once the queue has shut down and is empty.
    pub async fn get(&self) -> Option<Taken<K>> {
        // Kept through the loop: handing the duty on at every turn would keep the workers waking each other.
        let mut timekeeper = None;
        loop {
            let ready = self.shared.ready.notified();
            match self.shared.step() {
                Step::Take(item) => return Some(Taken::new(item, self)),
                Step::End => return None,
                Step::Wait => timekeeper = timekeeper.or_else(|| self.shared.claim_time()),
            }
            match &timekeeper {
                None => ready.await,
                Some(timekeeper) => tokio::select! {
                    biased;
                    () = ready => {}
                    () = timekeeper.keep() => {}
                },
            }
        }
    }

    /// No item is taken any more; those that are ready are still handed out. Breaks off a drain.
    pub fn shut_down(&self) {
        self.shared.state.lock().shut_down(Stage::ShutDown);
        self.shared.ready.notify_waiters();
        self.shared.ready.notify_one();
        self.shared.idle.notify_waiters();
    }

    /// Shuts down and waits until nothing is in work.
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

    /// Whether it takes nothing new.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.state.lock().stage() != Stage::Open
    }

    /// The figures of the queue now.
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

impl<K: Item> Taken<K> {
    fn new(item: K, queue: &Queue<K>) -> Self {
        let queue = queue.clone();
        Self { item, queue }
    }

    /// What the worker has.
    pub fn item(&self) -> &K {
        &self.item
    }
}

impl<K: Item> Drop for Taken<K> {
    fn drop(&mut self) {
        self.queue.done(&self.item);
    }
}

impl<K: Item> fmt::Debug for Taken<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Taken").field(&self.item).finish()
    }
}

// === impl Shared ===

/// What one who wants an item does next.
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

    fn claim_time(&self) -> Option<Timekeeper<'_, K>> {
        let claimed = self.state.lock().claim_time();
        claimed.then(|| Timekeeper(self))
    }
}

// === impl Timekeeper ===

impl<K: Item> Timekeeper<'_, K> {
    /// Resolves when the next item that waits is due, or the time of the next has come closer.
    async fn keep(&self) {
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

impl<K: Item> Drop for Timekeeper<'_, K> {
    fn drop(&mut self) {
        self.0.state.lock().release_time();
        self.0.ready.notify_one();
    }
}
