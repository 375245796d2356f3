//! The worker loop of a controller: takes a key from the queue, reconciles it, requeues it by the outcome.

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
use setpoint_client::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::metrics::Counters;
use crate::queue::{ItemGuard, Queue};
use crate::read_your_writes::WriteTracker;
use crate::reconcile::{Error, Item, Next, Reconcile};
use crate::tasks;

/// The state shared by all workers of a controller.
pub(crate) struct WorkerContext<K: Item> {
    pub(crate) name: &'static str,
    pub(crate) reconciler: Box<dyn AnyReconcile<K>>,
    /// The client without write tracking, from which that of each reconcile is made.
    pub(crate) client: Client,
    pub(crate) queue: Queue<K>,
    /// The caches that the reconciler reads.
    pub(crate) caches: Vec<Arc<Cache>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    /// The maximum duration of a reconcile.
    pub(crate) timeout: Option<Duration>,
}

/// Boxed only while it runs: a reconcile may hold whole objects, and a worker that waits for a key should not reserve
/// memory for them.
type ReconcileFuture<'a> = Pin<Box<dyn Future<Output = Result<Next, Error>> + Send + 'a>>;

/// An object-safe [`Reconcile`], so that the code around it is compiled once for all reconcilers.
pub(crate) trait AnyReconcile<K>: Send + Sync {
    fn start<'a>(&'a self, key: &'a K, client: &'a Client) -> ReconcileFuture<'a>;
}

/// How a reconcile ended.
enum Outcome {
    Ended(Result<Next, Error>),
    Panicked(String),
    /// It was dropped because it took too long.
    TimedOut,
}

/// When a key is reconciled again without another change.
enum Requeue {
    Never,
    After(Duration),
    /// After a delay that grows with each failure.
    RateLimited,
}

/// The longest that a key is held until the caches have its own writes. After that it is reconciled anyway, like an expired
/// expectation in Kubernetes' controllers.
const HOLD_LIMIT: Duration = Duration::from_secs(300);

/// Runs one worker until the queue shuts down or `stop` is cancelled; a running reconcile is finished first.
pub(crate) async fn run_worker<K: Item>(context: Arc<WorkerContext<K>>, stop: CancellationToken) {
    let mut held = JoinSet::new();
    while let Some(taken) = context.queue.get().await {
        if stop.is_cancelled() {
            return;
        }
        let unseen = context.process(taken.item()).await;
        if !unseen.is_empty() {
            context.counters.held.fetch_add(1, Ordering::Relaxed);
            tasks::spawn(&mut held, Box::pin(hold(taken, unseen, context.clock.clone())));
        }
        while held.try_join_next().is_some() {}
    }
}

impl<R: Reconcile<K>, K: Item> AnyReconcile<K> for R {
    fn start<'a>(&'a self, key: &'a K, client: &'a Client) -> ReconcileFuture<'a> {
        Box::pin(self.reconcile(key, client))
    }
}

impl<K: Item> WorkerContext<K> {
    /// Reconciles one key; returns the caches that do not have its writes yet, with the revision each has to reach.
    async fn process(&self, key: &K) -> Vec<(Arc<Cache>, ResourceVersion)> {
        let span = tracing::debug_span!("reconcile", controller = self.name, ?key);
        self.counters.active_workers.fetch_add(1, Ordering::Relaxed);
        let started = self.clock.now();
        let (client, tracker) = WriteTracker::client(&self.client);
        let reconcile = self.with_timeout(catch_panic(|| self.reconciler.start(key, &client)));
        let outcome = reconcile.instrument(span.clone()).await;
        self.counters.active_workers.fetch_sub(1, Ordering::Relaxed);
        self.counters
            .durations
            .lock()
            .observe(self.clock.now().duration_since(started).as_secs_f64());
        span.in_scope(|| self.requeue_by_outcome(key, outcome));
        tracker.unseen(&self.caches)
    }

    async fn with_timeout(&self, reconcile: impl Future<Output = Outcome>) -> Outcome {
        let Some(timeout) = self.timeout else {
            return reconcile.await;
        };
        tokio::select! {
            biased;
            outcome = reconcile => outcome,
            () = self.clock.sleep(timeout) => Outcome::TimedOut,
        }
    }

    /// Requeues the key by the outcome. The worker still holds the key, so it can be neither lost nor run twice.
    fn requeue_by_outcome(&self, key: &K, outcome: Outcome) {
        match self.counters.record(outcome, self.timeout) {
            Requeue::Never => self.queue.forget(key),
            Requeue::After(delay) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), delay);
            }
            Requeue::RateLimited => self.queue.add_rate_limited(key.clone()),
        }
    }
}

impl Counters {
    /// Counts and logs the outcome of a reconcile; returns when to reconcile the key again.
    fn record(&self, outcome: Outcome, timeout: Option<Duration>) -> Requeue {
        match outcome {
            Outcome::Ended(Ok(next)) => {
                count(&self.succeeded);
                let Next::After(delay) = next else {
                    return Requeue::Never;
                };
                count(&self.requeued_after);
                return Requeue::After(delay);
            }
            Outcome::Ended(Err(Error::Terminal(error))) => {
                count(&self.terminal);
                tracing::error!(%error, "reconcile failed with a terminal error; not retried");
                return Requeue::Never;
            }
            Outcome::Ended(Err(error)) if error.is_conflict() => {
                count(&self.conflicts);
                tracing::debug!(%error, "reconcile had a conflict");
            }
            Outcome::Ended(Err(error)) => {
                count(&self.failed);
                tracing::warn!(%error, "reconcile failed");
            }
            Outcome::TimedOut => {
                count(&self.timeouts);
                tracing::warn!(?timeout, "reconcile timed out");
            }
            Outcome::Panicked(message) => {
                count(&self.panics);
                tracing::error!(message, "reconcile panicked");
            }
        }
        Requeue::RateLimited
    }
}

/// Holds the key until the caches have its writes. It may become dirty meanwhile, but no worker gets it.
async fn hold<K: Item>(
    taken: ItemGuard<K>,
    unseen: Vec<(Arc<Cache>, ResourceVersion)>,
    clock: Arc<dyn Clock>,
) {
    let caught_up = async {
        for (cache, version) in &unseen {
            cache.reached(*version).await;
        }
    };
    tokio::select! {
        () = caught_up => {}
        () = clock.sleep(HOLD_LIMIT) => tracing::warn!(key = ?taken.item(), "caches did not observe the writes of the reconcile in time"),
    }
}

/// Runs a reconcile and catches its panic, so that it ends only this one reconcile.
async fn catch_panic<F>(start: impl FnOnce() -> Pin<Box<F>>) -> Outcome
where
    F: Future<Output = Result<Next, Error>> + ?Sized,
{
    let started = catch_unwind(AssertUnwindSafe(start));
    let mut future = match started {
        Ok(future) => future,
        Err(panic) => return Outcome::Panicked(panic_message(&*panic)),
    };
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Outcome::Ended(result)),
            Err(panic) => Poll::Ready(Outcome::Panicked(panic_message(&*panic))),
        }
    })
    .await
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "unknown panic message".to_owned())
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
