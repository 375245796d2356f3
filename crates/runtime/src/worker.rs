//! One worker of a controller: takes a key, reconciles it, does what the outcome says.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use setpoint_api::{Clock, ResourceVersion};
use setpoint_cache::Cache;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::freshness;
use crate::metrics::Counters;
use crate::queue::{Queue, Taken};
use crate::reconcile::{Error, Item, Next, Reconcile};

/// What all workers of a controller share.
pub(crate) struct Shop<K: Item> {
    pub(crate) name: &'static str,
    pub(crate) reconciler: Box<dyn AnyReconcile<K>>,
    pub(crate) queue: Queue<K>,
    /// The caches that the reconciler reads.
    pub(crate) caches: Vec<Arc<Cache>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    /// How long a reconcile may take.
    pub(crate) timeout: Option<Duration>,
}

/// On the heap for as long as it runs: a reconcile may hold whole objects, and a worker that waits for a key should not keep
/// room for them.
type Reconciling<'a> = Pin<Box<dyn Future<Output = Result<Next, Error>> + Send + 'a>>;

/// A reconciler of any type, so that the code around it is compiled once for all of them.
pub(crate) trait AnyReconcile<K>: Send + Sync {
    fn start<'a>(&'a self, key: &'a K) -> Reconciling<'a>;
}

/// How a reconcile ended.
enum Outcome {
    Ended(Result<Next, Error>),
    Panicked(String),
    /// It was dropped because it took too long.
    TimedOut,
}

/// The longest that a key is held for its own writes to show up. After that it goes on with what is there, as client-go's
/// expectations do.
const HOLD_LIMIT: Duration = Duration::from_secs(300);

/// Works until the queue ends or the stop comes; a reconcile that runs is finished first.
pub(crate) async fn work<K: Item>(shop: Arc<Shop<K>>, stop: CancellationToken) {
    let mut held = JoinSet::new();
    while let Some(taken) = shop.queue.get().await {
        if stop.is_cancelled() {
            return;
        }
        let unseen = shop.process(taken.item()).await;
        if !unseen.is_empty() {
            shop.counters.held.fetch_add(1, Ordering::Relaxed);
            held.spawn(hold(taken, unseen, shop.clock.clone()));
        }
        while held.try_join_next().is_some() {}
    }
}

impl<R: Reconcile<K>, K: Item> AnyReconcile<K> for R {
    fn start<'a>(&'a self, key: &'a K) -> Reconciling<'a> {
        Box::pin(self.reconcile(key))
    }
}

impl<K: Item> Shop<K> {
    /// Reconciles one key; what the caches have yet to see of its writes.
    async fn process(&self, key: &K) -> Vec<(Arc<Cache>, ResourceVersion)> {
        let span = tracing::debug_span!("reconcile", controller = self.name, ?key);
        self.counters.active_workers.fetch_add(1, Ordering::Relaxed);
        let started = self.clock.now();
        let reconcile = self.in_time(outcome_of(|| self.reconciler.start(key)));
        let (outcome, writes) = freshness::track(reconcile).instrument(span.clone()).await;
        self.counters.active_workers.fetch_sub(1, Ordering::Relaxed);
        self.counters
            .took
            .lock()
            .observe(self.clock.now().duration_since(started));
        span.in_scope(|| self.settle(key, outcome));
        writes.unseen(&self.caches)
    }

    async fn in_time(&self, reconcile: impl Future<Output = Outcome>) -> Outcome {
        let Some(timeout) = self.timeout else {
            return reconcile.await;
        };
        tokio::select! {
            biased;
            outcome = reconcile => outcome,
            () = self.clock.sleep(timeout) => Outcome::TimedOut,
        }
    }

    /// Decides when the key comes back. This happens while it is still held, so it cannot be lost or run twice.
    fn settle(&self, key: &K, outcome: Outcome) {
        match outcome {
            Outcome::Ended(Ok(next)) => {
                count(&self.counters.succeeded);
                self.queue.forget(key);
                if let Next::After(delay) = next {
                    count(&self.counters.requeued_after);
                    self.queue.add_after(key.clone(), delay);
                }
            }
            Outcome::Ended(Err(Error::Terminal(error))) => {
                count(&self.counters.terminal);
                self.queue.forget(key);
                tracing::error!(%error, "reconcile failed for good");
            }
            Outcome::Ended(Err(error)) if error.is_conflict() => {
                count(&self.counters.conflicts);
                tracing::debug!(%error, "reconcile lost a race");
                self.queue.add_rate_limited(key.clone());
            }
            Outcome::Ended(Err(error)) => {
                count(&self.counters.failed);
                tracing::warn!(%error, "reconcile failed");
                self.queue.add_rate_limited(key.clone());
            }
            Outcome::TimedOut => {
                count(&self.counters.timeouts);
                tracing::warn!(timeout = ?self.timeout, "reconcile took too long");
                self.queue.add_rate_limited(key.clone());
            }
            Outcome::Panicked(message) => {
                count(&self.counters.panics);
                tracing::error!(message, "reconcile panicked");
                self.queue.add_rate_limited(key.clone());
            }
        }
    }
}

/// Keeps the key until the caches have caught up. It may become dirty meanwhile; nobody gets it.
async fn hold<K: Item>(taken: Taken<K>, unseen: Vec<(Arc<Cache>, ResourceVersion)>, clock: Arc<dyn Clock>) {
    let caught_up = async {
        for (cache, version) in &unseen {
            cache.reached(*version).await;
        }
    };
    tokio::select! {
        () = caught_up => {}
        () = clock.sleep(HOLD_LIMIT) => tracing::warn!(key = ?taken.item(), "the caches do not see what was written"),
    }
}

/// Runs to the end or to a panic, which ends only this one reconcile.
async fn outcome_of<F>(start: impl FnOnce() -> Pin<Box<F>>) -> Outcome
where
    F: Future<Output = Result<Next, Error>> + ?Sized,
{
    let started = catch_unwind(AssertUnwindSafe(start));
    let mut future = match started {
        Ok(future) => future,
        Err(panic) => return Outcome::Panicked(message_of(&*panic)),
    };
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Outcome::Ended(result)),
            Err(panic) => Poll::Ready(Outcome::Panicked(message_of(&*panic))),
        }
    })
    .await
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
