//! [`Informer`]: tells a handler what is in a cache and what happens to it.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, Clock, Stored};
use setpoint_cache::{Cache, Subscription, TooOld};
use tokio_util::sync::CancellationToken;

/// What a handler is told. The cache has it already, or something newer.
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// The object is there: at the start, and again at every resync and after a gap.
    Present(&'a Arc<Stored>),
    Changed(&'a Change),
    /// Changes have been missed. What is there now follows; what went in between is not told.
    Gap,
}

/// Follows one cache for one handler.
#[derive(Debug)]
pub struct Informer {
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    resync: Option<Duration>,
}

/// Why the informer's wait came to an end.
enum Woken {
    Stopped,
    Changed(Result<setpoint_cache::Batch, TooOld>),
    Due,
}

impl Informer {
    pub fn new(cache: Arc<Cache>, clock: Arc<dyn Clock>) -> Self {
        Self {
            cache,
            clock,
            resync: None,
        }
    }

    /// The same informer, telling of every object again each time this period has passed.
    #[must_use]
    pub fn resync_every(self, period: Duration) -> Self {
        let resync = Some(period.max(MIN_RESYNC));
        Self { resync, ..self }
    }

    /// Tells the handler of every object, then of every change in order, until stopped. A slow handler holds up nobody.
    pub async fn run(self, mut handle: impl FnMut(Notice<'_>) + Send, stop: CancellationToken) {
        let mut subscription = self.start(&mut handle);
        let mut due = self.next_resync();
        loop {
            let woken = tokio::select! {
                biased;
                () = stop.cancelled() => Woken::Stopped,
                batch = subscription.next() => Woken::Changed(batch),
                () = &mut due => Woken::Due,
            };
            match woken {
                Woken::Stopped => return,
                Woken::Changed(Ok(batch)) => {
                    batch
                        .changes()
                        .iter()
                        .for_each(|change| handle(Notice::Changed(change)));
                }
                Woken::Changed(Err(TooOld { .. })) => {
                    handle(Notice::Gap);
                    subscription = self.start(&mut handle);
                }
                Woken::Due => {
                    self.cache
                        .snapshot()
                        .iter()
                        .for_each(|object| handle(Notice::Present(object)));
                    due = self.next_resync();
                }
            }
        }
    }

    fn start(&self, handle: &mut impl FnMut(Notice<'_>)) -> Subscription {
        let subscribed = self.cache.subscribe(None);
        let mut subscription = subscribed.expect("whoever starts with what is there asks for nothing old");
        let initial = subscription.initial.take();
        initial
            .iter()
            .flat_map(|snapshot| snapshot.iter())
            .for_each(|object| handle(Notice::Present(object)));
        subscription
    }

    fn next_resync(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        match self.resync {
            Some(period) => self.clock.sleep(period),
            None => Box::pin(pending()),
        }
    }
}

/// A shorter period would do nothing but resync.
const MIN_RESYNC: Duration = Duration::from_secs(1);
