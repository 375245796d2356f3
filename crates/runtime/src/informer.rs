//! [`Informer`]: tells a handler what is in a cache and what happens to it.

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

/// What a handler is told. The cache has it already, or something newer.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// The object is there: at the start, and again at every resync and after a gap.
    Present(&'a Arc<Stored>),
    /// Something happened to an object.
    Changed(&'a Change),
    /// Changes have been missed. What is there now follows; what went in between is not told.
    ///
    /// This is what becomes of a handler that is slower than its resource for long. The changes wait for it in the
    /// cache's window, which is shared by all handlers and bounded; whoever falls out of it starts over. So one slow
    /// handler costs neither the others nor the memory, and it still ends up with the newest state.
    Gap,
}

/// Whether a handler is concerned with an object.
pub type Filter = Arc<dyn Fn(&Stored) -> bool + Send + Sync>;

/// Follows one cache for one handler.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (cache, clock) = (cluster.cache::<k8s_openapi::api::core::v1::Namespace>(), std::sync::Arc::new(cluster.clock.clone()));
/// use setpoint_runtime::{Informer, Notice};
/// use tokio_util::sync::CancellationToken;
///
/// let stop = CancellationToken::new();
/// let handle = |notice: Notice<'_>| match notice {
///     Notice::Present(object) if object.key().name() == "default" => stop.cancel(),
///     Notice::Present(_) | Notice::Changed(_) | Notice::Gap => {}
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
    told: Told,
}

/// How far an informer has come. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Told {
    cache: Arc<Cache>,
    /// The number of the next change to tell, plus one; zero while nothing has been told.
    next: Arc<AtomicU64>,
}

/// Why the informer's wait came to an end.
enum Woken {
    Stopped,
    Changed(Result<Batch, TooOld>),
    Due,
}

impl Informer {
    /// An informer of this cache, which tells nothing before it runs.
    pub fn new(cache: Arc<Cache>, clock: Arc<dyn Clock>) -> Self {
        let told = Told {
            cache: cache.clone(),
            next: Arc::default(),
        };
        Self {
            cache,
            clock,
            resync: None,
            filter: None,
            synced: watch::Sender::new(false),
            told,
        }
    }

    /// The same informer, telling of every object again each time this period has passed.
    #[must_use]
    pub fn resync_every(self, period: Duration) -> Self {
        let resync = Some(period.max(MIN_RESYNC));
        Self { resync, ..self }
    }

    /// The same informer for a handler that is concerned with these objects only. One that begins to be among them is
    /// told as added, one that ceases to be as deleted.
    #[must_use]
    pub fn only(self, filter: Filter) -> Self {
        let filter = Some(filter);
        Self { filter, ..self }
    }

    /// Turns true once the handler has been told of everything that was there at the start.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// How far the handler has been told, at any time.
    pub fn told(&self) -> Told {
        self.told.clone()
    }

    /// Waits until the cache is filled, tells the handler of every object, then of every change in order, until stopped.
    /// A slow handler holds up nobody.
    pub async fn run(self, mut handle: impl FnMut(Notice<'_>) + Send, stop: CancellationToken) {
        let stopped = stop.cancelled();
        tokio::pin!(stopped);
        tokio::select! {
            biased;
            () = &mut stopped => return,
            () = self.cache.synced() => {}
        }
        let mut subscription = self.start(&mut handle);
        self.told.note(&subscription);
        self.synced.send_replace(true);
        let (mut due, mut batches) = (self.next_resync(), 0_u64);
        loop {
            let woken = tokio::select! {
                biased;
                () = &mut stopped => Woken::Stopped,
                batch = subscription.next() => Woken::Changed(batch),
                () = &mut due => Woken::Due,
            };
            match woken {
                Woken::Stopped => return,
                Woken::Changed(Ok(batch)) => {
                    self.tell(&batch, &mut handle);
                    self.told.note(&subscription);
                    batches += 1;
                    if batches % TURN == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                Woken::Changed(Err(TooOld { .. })) => {
                    handle(Notice::Gap);
                    subscription = self.start(&mut handle);
                    self.told.note(&subscription);
                }
                Woken::Due => {
                    let snapshot = self.cache.snapshot();
                    self.tell_present(snapshot.iter(), &mut handle);
                    due = self.next_resync();
                }
            }
        }
    }

    fn start(&self, handle: &mut impl FnMut(Notice<'_>)) -> Subscription {
        let subscribed = self.cache.subscribe(None);
        let mut subscription = subscribed.expect("whoever starts with what is there asks for nothing old");
        if let Some(initial) = subscription.initial.take() {
            self.tell_present(initial.iter(), handle);
        }
        subscription
    }

    fn tell_present<'a>(
        &self,
        objects: impl Iterator<Item = &'a Arc<Stored>>,
        handle: &mut impl FnMut(Notice<'_>),
    ) {
        objects
            .filter(|object| self.filter.as_ref().is_none_or(|concerns| concerns(object)))
            .for_each(|object| handle(Notice::Present(object)));
    }

    fn tell(&self, batch: &Batch, handle: &mut impl FnMut(Notice<'_>)) {
        for change in batch.changes() {
            match &self.filter {
                None => handle(Notice::Changed(change)),
                Some(concerns) => {
                    if let Some(change) = filtered(change, concerns) {
                        handle(Notice::Changed(&change));
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

// === impl Told ===

impl Told {
    /// Whether the handler has been told of everything that is in the cache.
    pub fn is_current(&self) -> bool {
        let next = self.next.load(Ordering::Acquire);
        next > 0 && next > self.cache.sequence()
    }

    /// The cache that is told of.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// To be called when the handler has returned, so that nobody takes what it is about to do for done.
    fn note(&self, subscription: &Subscription) {
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

/// After so many batches others have a turn, even if there are more.
const TURN: u64 = 64;
/// A shorter period would do nothing but resync.
const MIN_RESYNC: Duration = Duration::from_secs(1);

/// The change as one sees it who is concerned with some objects only; `None` if with neither side of it.
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

    use super::*;

    fn object(version: u64) -> Arc<Stored> {
        let mut header = Header::new(Key::new("", "x"));
        header.resource_version = ResourceVersion(version);
        Arc::new(Stored::new(header, "{}".into(), 1))
    }

    /// One who is told faster than he could ever be done with it leaves others their turn, though one task tells them all.
    #[tokio::test]
    async fn whoever_rides_along_is_told_even_if_another_is_never_done() {
        let cache = Arc::new(Cache::new(GroupResource::new("", "nodes")));
        cache.replace(vec![object(1)], ResourceVersion(1));
        let (heard, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (endless, listener) = (cache.clone(), heard.clone());
        let mut last = 1;
        let never_done = move |_: Notice<'_>| {
            let (old, new) = (object(last), object(last + 1));
            last += 1;
            assert!(last < 100_000, "nobody else had a turn");
            endless.apply(vec![Change::Modified { old, new }], ResourceVersion(last));
        };
        let listens = move |notice: Notice<'_>| {
            if let Notice::Changed(_) = notice {
                listener.fetch_add(1, Ordering::Relaxed);
            }
        };
        let informer = || Informer::new(cache.clone(), Arc::new(SystemClock::new()));
        let first = cache.clone().ride(informer().run(never_done, stop.clone()));
        let second = cache.clone().ride(informer().run(listens, stop.clone()));
        let enough = async {
            while heard.load(Ordering::Relaxed) < 100 {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        tokio::join!(first, second, enough);
    }
}
