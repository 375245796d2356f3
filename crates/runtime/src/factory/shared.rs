//! [`SharedInformer`]: one cache and those who are told of it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::Clock;
use setpoint_cache::Cache;
use setpoint_client::Object;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Jobs;
use crate::informer::{Filter, Informer, Notice};
use crate::lister::Lister;

/// What is known of one resource, for everyone who asks.
pub struct SharedInformer {
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    jobs: Arc<Jobs>,
}

/// What a handler wants besides being told of changes.
#[derive(Clone, Default)]
pub struct Wishes {
    /// To be told of everything again, each time this has passed.
    pub resync: Option<Duration>,
    /// To be told of these only.
    pub only: Option<Filter>,
    /// To be told in one go with all others who wish for this, which is cheaper. The handler must do little, such as putting
    /// a key into a queue: while it takes its time, the others wait. Without this nobody waits for it.
    pub is_quick: bool,
}

/// A handler's place. Dropping it removes the handler.
#[derive(Debug)]
pub struct Registration {
    synced: watch::Receiver<bool>,
    /// Closed when the handler is called no more.
    ended: watch::Receiver<()>,
    remove: DropGuard,
}

/// The factory has stopped: nobody would call the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped and takes no handlers")]
pub struct Stopped;

// === impl SharedInformer ===

impl SharedInformer {
    pub(super) fn new(cache: Arc<Cache>, clock: Arc<dyn Clock>, jobs: Arc<Jobs>) -> Self {
        Self { cache, clock, jobs }
    }

    /// The objects. Indexes can be added to it at any time.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Reads the objects as a `T`, which they must be.
    pub fn lister<T: Object>(&self) -> Lister<T> {
        Lister::new(self.cache.clone())
    }

    /// Whether the objects are there. This says nothing of who has been told of them.
    pub fn has_synced(&self) -> bool {
        self.cache.is_synced()
    }

    /// Calls `handle` for everything there is and for all that happens to it, one call at a time, in order for each
    /// object. The first calls come when the factory runs. A call that panics is logged, and the next one is made.
    pub fn add_handler(
        &self,
        wishes: Wishes,
        handle: impl FnMut(Notice<'_>) + Send + 'static,
    ) -> Result<Registration, Stopped> {
        let mut informer = Informer::new(self.cache.clone(), self.clock.clone());
        if let Some(period) = wishes.resync {
            informer = informer.resync_every(period);
        }
        if let Some(filter) = wishes.only {
            informer = informer.only(filter);
        }
        let (remove, synced) = (CancellationToken::new(), informer.synced());
        let (alive, ended) = watch::channel(());
        let (removed, resource) = (remove.clone(), self.cache.resource().clone());
        let handle = guarded(handle, resource.to_string());
        let cache = self.cache.clone();
        let started = self.jobs.push(move |stop| async move {
            let told = async move {
                tokio::select! {
                    biased;
                    () = removed.cancelled() => {}
                    () = informer.run(handle, stop) => {}
                }
            };
            match wishes.is_quick {
                true => cache.ride(told).await,
                false => told.await,
            }
            drop(alive);
        });
        match started {
            true => Ok(Registration {
                synced,
                ended,
                remove: remove.drop_guard(),
            }),
            false => Err(Stopped),
        }
    }
}

impl fmt::Debug for SharedInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedInformer").field(&self.cache).finish()
    }
}

// === impl Wishes ===

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wishes")
            .field("resync", &self.resync)
            .field("only", &self.only.is_some())
            .field("is_quick", &self.is_quick)
            .finish()
    }
}

// === impl Registration ===

impl Registration {
    /// Whether the handler has been told of everything that was there when it began.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Resolves once the handler has been told of everything that was there when it began, or will never be.
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        // The informer that is gone tells nobody anything.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Removes the handler and waits until its last call has returned. The handler itself must not wait for this.
    pub async fn remove(self) {
        let Self {
            mut ended, remove, ..
        } = self;
        drop(remove);
        while ended.changed().await.is_ok() {}
    }
}

/// The handler, whose panics end only the call they happen in.
fn guarded(
    mut handle: impl FnMut(Notice<'_>) + Send + 'static,
    resource: String,
) -> impl FnMut(Notice<'_>) + Send + 'static {
    move |notice| {
        let called = catch_unwind(AssertUnwindSafe(|| handle(notice)));
        if called.is_err() {
            tracing::error!(resource, "a handler panicked; what it was told of is skipped");
        }
    }
}
