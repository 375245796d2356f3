//! [`SharedInformer`]: one cache and its event handlers.

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
use crate::informer::{Event, Filter, Informer};
use crate::lister::Lister;

/// The informer of one resource: one watch and one cache, shared by any number of handlers.
pub struct SharedInformer {
    cache: Arc<Cache>,
    clock: Arc<dyn Clock>,
    jobs: Arc<Jobs>,
}

/// Options of a handler (client-go's `HandlerOptions`).
#[derive(Clone, Default)]
pub struct HandlerOptions {
    /// Delivers every object again each time this period has passed.
    pub resync: Option<Duration>,
    /// Delivers only objects that pass this filter.
    pub filter: Option<Filter>,
    /// Calls the handler from one task with all other handlers that set this, which is cheaper. It must do little, such as
    /// adding a key to a queue: a slow handler delays the others. Without this, each handler has a task of its own.
    pub shared_task: bool,
}

/// The registration of a handler. Dropping it removes the handler.
#[derive(Debug)]
pub struct Registration {
    synced: watch::Receiver<bool>,
    /// Closed after the last call of the handler.
    ended: watch::Receiver<()>,
    remove: DropGuard,
}

/// The factory has stopped, so the handler would never be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer has stopped; no handler can be added")]
pub struct InformerStopped;

// === impl SharedInformer ===

impl SharedInformer {
    pub(super) fn new(cache: Arc<Cache>, clock: Arc<dyn Clock>, jobs: Arc<Jobs>) -> Self {
        Self { cache, clock, jobs }
    }

    /// The cache of the objects. Indexes can be added to it at any time.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Reads the objects as a `T`, which they must be.
    pub fn lister<T: Object>(&self) -> Lister<T> {
        Lister::new(self.cache.clone())
    }

    /// Whether the cache has synced. The handlers may not have received all objects yet: see [`Registration::has_synced`].
    pub fn has_synced(&self) -> bool {
        self.cache.is_synced()
    }

    /// Adds a handler: `handle` is called for every object and for every change, one call at a time, in order for each
    /// object. The first calls come when the factory runs. A call that panics is logged, and delivery continues.
    pub fn add_handler(
        &self,
        options: HandlerOptions,
        handle: impl FnMut(Event<'_>) + Send + 'static,
    ) -> Result<Registration, InformerStopped> {
        let mut informer = Informer::new(self.cache.clone(), self.clock.clone());
        if let Some(period) = options.resync {
            informer = informer.resync_every(period);
        }
        if let Some(filter) = options.filter {
            informer = informer.with_filter(filter);
        }
        let (remove, synced) = (CancellationToken::new(), informer.synced());
        let (alive, ended) = watch::channel(());
        let (removed, resource) = (remove.clone(), self.cache.resource().clone());
        let handle = guarded(handle, resource.to_string());
        let cache = self.cache.clone();
        let started = self.jobs.push(move |stop| async move {
            let delivery = async move {
                tokio::select! {
                    biased;
                    () = removed.cancelled() => {}
                    () = informer.run(handle, stop) => {}
                }
            };
            match options.shared_task {
                true => cache.poll_shared(delivery).await,
                false => delivery.await,
            }
            drop(alive);
        });
        match started {
            true => Ok(Registration {
                synced,
                ended,
                remove: remove.drop_guard(),
            }),
            false => Err(InformerStopped),
        }
    }
}

impl fmt::Debug for SharedInformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedInformer").field(&self.cache).finish()
    }
}

// === impl HandlerOptions ===

impl fmt::Debug for HandlerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerOptions")
            .field("resync", &self.resync)
            .field("only", &self.filter.is_some())
            .field("is_quick", &self.shared_task)
            .finish()
    }
}

// === impl Registration ===

impl Registration {
    /// Whether the handler has received the initial list.
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Resolves once the handler has received the initial list, or the informer has stopped.
    pub async fn synced(&self) {
        let mut synced = self.synced.clone();
        // An error means that the informer has stopped.
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

/// Wraps a handler so that a panic ends only the call in which it happens.
fn guarded(
    mut handle: impl FnMut(Event<'_>) + Send + 'static,
    resource: String,
) -> impl FnMut(Event<'_>) + Send + 'static {
    move |notice| {
        let called = catch_unwind(AssertUnwindSafe(|| handle(notice)));
        if called.is_err() {
            tracing::error!(resource, "event handler panicked; the event is skipped");
        }
    }
}
