//! [`Informer`]: delivers the objects of a cache and their changes to one event handler.

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use setpoint_api::{Change, Clock, Stored};
use setpoint_cache::{Batch, Cache, Subscription, TooOld};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::tasks::TaskFuture;

/// An event for a handler (client-go's `ResourceEventHandler`). The cache already has this state, or a newer one.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The object exists: in the initial list, and again at every resync and after a gap.
    Present(&'a Arc<Stored>),
    /// The object was added, modified or deleted.
    Changed(&'a Change),
    /// Changes were missed. All objects that exist now follow; deletions in between are not delivered.
    ///
    /// This happens to a handler that is slower than its resource for long. Pending changes are in the cache's window,
    /// which is bounded and shared by all handlers; a handler that falls out of it starts over. So a slow handler delays
    /// no other handler and uses no more memory, and it still ends up with the newest state.
    Gap,
}

/// Whether a handler gets the events of an object.
pub type Filter = Arc<dyn Fn(&Stored) -> bool + Send + Sync>;

/// Follows one cache for one handler.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (cache, clock) = (cluster.cache::<k8s_openapi::api::core::v1::Namespace>(), std::sync::Arc::new(cluster.clock.clone()));
/// use setpoint_runtime::{Event, Informer};
/// use tokio_util::sync::CancellationToken;
///
/// let stop = CancellationToken::new();
/// let handle = |event: Event<'_>| match event {
///     Event::Present(object) if object.key().name() == "default" => stop.cancel(),
///     Event::Present(_) | Event::Changed(_) | Event::Gap => {}
/// };
/// Informer::new(cache, clock).run(handle, stop.clone()).await;
/// # }
/// ```
pub struct Informer {
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    resync: Option<Duration>,
    filter: Option<Filter>,
    synced: watch::Sender<bool>,
    progress: DeliveryProgress,
}

/// How far an informer has delivered the changes of its cache. Cloning shares it.
#[derive(Debug, Clone)]
pub struct DeliveryProgress {
    cache: Arc<Cache>,
    /// The sequence number of the next change to deliver, plus one; zero before the initial list was delivered.
    next: Arc<AtomicU64>,
}

/// Why the informer's wait ended.
enum Wake {
    Stopped,
    Changed(Result<Batch, TooOld>),
    Due,
}

impl Informer {
    /// An informer of this cache, which delivers nothing before it runs.
    pub fn new(cache: Arc<Cache>, clock: Arc<dyn Clock>) -> Self {
        let progress = DeliveryProgress {
            cache: cache.clone(),
            next: Arc::default(),
        };
        Self {
            cache,
            clock,
            resync: None,
            filter: None,
            synced: watch::Sender::new(false),
            progress,
        }
    }

    /// The same informer, which delivers every object again each time this period has passed.
    #[must_use]
    pub fn resync_every(self, period: Duration) -> Self {
        let resync = Some(period.max(MIN_RESYNC));
        Self { resync, ..self }
    }

    /// The same informer for the objects that pass a filter. An object that starts to pass is delivered as added, one that
    /// no longer passes as deleted (client-go's `FilteringResourceEventHandler`).
    #[must_use]
    pub fn with_filter(self, filter: Filter) -> Self {
        let filter = Some(filter);
        Self { filter, ..self }
    }

    /// Turns true once the handler has received the initial list.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// A handle on how far the handler has received the changes.
    pub fn delivery_progress(&self) -> DeliveryProgress {
        self.progress.clone()
    }

    /// Waits until the cache has synced, delivers every object to the handler, then every change in order, until stopped.
    /// A slow handler delays no other handler.
    pub async fn run(self, mut handle: impl FnMut(Event<'_>) + Send, stop: CancellationToken) {
        let stopped = stop.cancelled();
        tokio::pin!(stopped);
        tokio::select! {
            biased;
            () = &mut stopped => return,
            () = self.cache.synced() => {}
        }
        let mut subscription = self.subscribe();
        self.deliver_initial(&mut subscription, &mut handle);
        self.progress.record(&subscription);
        self.synced.send_replace(true);
        let (mut due, mut batches) = (self.next_resync(), 0_u64);
        loop {
            let woken = tokio::select! {
                biased;
                () = &mut stopped => Wake::Stopped,
                batch = subscription.next() => Wake::Changed(batch),
                () = &mut due => Wake::Due,
            };
            match woken {
                Wake::Stopped => return,
                Wake::Changed(Ok(batch)) => {
                    self.deliver(&batch, &mut handle);
                    self.progress.record(&subscription);
                    batches += 1;
                    if batches % YIELD_AFTER_BATCHES == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Wake::Changed(Err(TooOld { .. })) => {
                    // The subscription comes first: a deletion after the handler has looked at the cache is delivered.
                    subscription = self.subscribe();
                    handle(Event::Gap);
                    self.deliver_initial(&mut subscription, &mut handle);
                    self.progress.record(&subscription);
                }
                Wake::Due => {
                    let snapshot = self.cache.snapshot();
                    self.deliver_present(snapshot.iter(), &mut handle);
                    due = self.next_resync();
                }
            }
        }
    }

    /// [`Self::run`] for a handler in a box, compiled once for all handlers.
    pub(crate) fn run_boxed(
        self,
        handle: Box<dyn FnMut(Event<'_>) + Send>,
        stop: CancellationToken,
    ) -> TaskFuture {
        Box::pin(self.run(handle, stop))
    }

    fn subscribe(&self) -> Subscription {
        let subscribed = self.cache.subscribe(None);
        subscribed.expect("a subscription from a snapshot is never too old")
    }

    fn deliver_initial(&self, subscription: &mut Subscription, handle: &mut impl FnMut(Event<'_>)) {
        if let Some(initial) = subscription.initial.take() {
            self.deliver_present(initial.iter(), handle);
        }
    }

    fn deliver_present<'a>(
        &self,
        objects: impl Iterator<Item = &'a Arc<Stored>>,
        handle: &mut impl FnMut(Event<'_>),
    ) {
        objects
            .filter(|object| self.filter.as_ref().is_none_or(|concerns| concerns(object)))
            .for_each(|object| handle(Event::Present(object)));
    }

    fn deliver(&self, batch: &Batch, handle: &mut impl FnMut(Event<'_>)) {
        for change in batch.changes() {
            match &self.filter {
                None => handle(Event::Changed(change)),
                Some(concerns) => {
                    if let Some(change) = filtered(change, concerns) {
                        handle(Event::Changed(&change));
                    }
                }
            }
        }
    }

    fn next_resync(&self) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        match self.resync {
            Some(period) => self.clock.sleep(period),
            None => Box::pin(pending()),
        }
    }
}

// === impl DeliveryProgress ===

impl DeliveryProgress {
    /// Whether the handler has received everything that is in the cache.
    pub fn is_current(&self) -> bool {
        let next = self.next.load(Ordering::Acquire);
        next > 0 && next > self.cache.sequence()
    }

    /// The cache whose changes are delivered.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Called after the handler has returned, so that [`Self::is_current`] is not true while the handler still runs.
    fn record(&self, subscription: &Subscription) {
        self.next.store(subscription.position() + 1, Ordering::Release);
    }
}

impl fmt::Debug for Informer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("cache", &self.cache)
            .field("resync", &self.resync)
            .finish_non_exhaustive()
    }
}

/// After so many batches the informer yields to other futures of its task, even if there are more.
const YIELD_AFTER_BATCHES: u64 = 64;
/// The minimum resync period, as in client-go.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// The change as a handler with this filter sees it; `None` if neither the old nor the new object passes.
fn filtered(change: &Change, concerns: &Filter) -> Option<Change> {
    let was = change.old().is_some_and(|old| concerns(old));
    match change {
        Change::Deleted { .. } => was.then(|| change.clone()),
        Change::Added(new) | Change::Modified { new, .. } => match (was, concerns(new)) {
            (false, false) => None,
            (false, true) => Some(Change::Added(new.clone())),
            (true, true) => Some(change.clone()),
            (true, false) => Some(Change::Deleted {
                old: change.old()?.clone(),
                last: new.clone(),
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::{GroupResource, Header, Key, ResourceVersion, SystemClock};
    use setpoint_cache::Limits;

    use super::*;

    fn object(version: u64) -> Arc<Stored> {
        let mut header = Header::new(Key::new("", "x"));
        header.resource_version = ResourceVersion(version);
        Arc::new(Stored::new(header, "{}".into(), 1))
    }

    /// A handler whose events never end does not starve the other handlers that share its task.
    #[tokio::test]
    async fn handlers_of_a_shared_task_get_events_even_if_those_of_another_never_end() {
        let cache = Arc::new(Cache::new(GroupResource::new("", "nodes")));
        cache.replace(vec![object(1)], ResourceVersion(1));
        let (received, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (endless, counter) = (cache.clone(), received.clone());
        let mut last = 1;
        let never_done = move |_: Event<'_>| {
            let (old, new) = (object(last), object(last + 1));
            last += 1;
            assert!(last < 100_000, "the other handler was starved");
            endless.apply(vec![Change::Modified { old, new }], ResourceVersion(last));
        };
        let listens = move |notice: Event<'_>| {
            if let Event::Changed(_) = notice {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let informer = || Informer::new(cache.clone(), Arc::new(SystemClock::new()));
        let first = cache
            .clone()
            .poll_shared(informer().run(never_done, stop.clone()));
        let second = cache.clone().poll_shared(informer().run(listens, stop.clone()));
        let enough = async {
            while received.load(Ordering::Relaxed) < 100 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        tokio::join!(first, second, enough);
    }

    #[tokio::test]
    async fn a_deletion_after_a_gap_was_handled_is_delivered() {
        let limits = Limits {
            changes: 2,
            bytes: usize::MAX,
        };
        let cache = Arc::new(Cache::new(GroupResource::new("", "nodes")).with_limits(limits));
        cache.replace(vec![object(1)], ResourceVersion(1));
        let modified = |version: u64| Change::Modified {
            old: object(version - 1),
            new: object(version),
        };
        let (stop, deletions, gaps) = (CancellationToken::new(), AtomicU64::new(0), AtomicU64::new(0));
        let handle = |event: Event<'_>| match event {
            // More changes than the cache keeps.
            Event::Changed(Change::Modified { .. }) if gaps.load(Ordering::Relaxed) == 0 => {
                for version in 3..10 {
                    cache.apply(vec![modified(version)], ResourceVersion(version));
                }
            }
            Event::Gap => {
                let (old, last) = (object(9), object(10));
                cache.apply(vec![Change::Deleted { old, last }], ResourceVersion(10));
                gaps.fetch_add(1, Ordering::Relaxed);
            }
            Event::Changed(Change::Deleted { .. }) => {
                deletions.fetch_add(1, Ordering::Relaxed);
            }
            Event::Changed(Change::Added(_)) => stop.cancel(),
            Event::Changed(_) | Event::Present(_) => {}
        };
        let informer = Informer::new(cache.clone(), Arc::new(SystemClock::new()));
        let changes = async {
            cache.apply(vec![modified(2)], ResourceVersion(2));
            while gaps.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            cache.apply(vec![Change::Added(object(11))], ResourceVersion(11));
        };
        tokio::join!(informer.run(handle, stop.clone()), changes);
        assert_eq!(deletions.into_inner(), 1);
    }
}
