//! [`Controller`]: what wakes a reconciler, and the workers that run it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, GroupResource, Key};
use setpoint_cache::Cache;
use setpoint_client::Object;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::informer::{Informer, Notice};
use crate::manager::Context;
use crate::metrics::Counters;
use crate::owner;
use crate::queue::{Limits, Queue};
use crate::reconcile::{Error, Item, Reconcile};
use crate::worker::{Shop, work};

/// A reconciler, the resources whose changes wake it, and how many keys it works on at a time.
///
/// ```text
/// Controller::new("replicaset-controller", reconciler)
///     .watches(replica_sets, controller::itself)
///     .watches(pods, owner::controllers_of::<ReplicaSet>)
///     .run(&context, stop)
/// ```
pub struct Controller<R, K: Item = Key> {
    name: &'static str,
    reconciler: R,
    watches: Vec<Watched<K>>,
    reads: Vec<GroupResource>,
    workers: usize,
    limits: Limits,
    resync: Option<Duration>,
}

/// A resource, and which keys a change of it concerns.
struct Watched<K> {
    resource: GroupResource,
    map: Map<K>,
}

type Map<K> = Arc<dyn Fn(&Change) -> Vec<K> + Send + Sync>;

/// The caches to follow, each with whom its changes concern.
type Sources<K> = Arc<[(Arc<Cache>, Map<K>)]>;

/// The key of the object that changed.
pub fn itself(change: &Change) -> Vec<Key> {
    vec![change.key().clone()]
}

/// As many as kube-controller-manager has for most of its controllers.
const WORKERS: usize = 5;

// === impl Controller ===

impl<R, K> Controller<R, K>
where
    K: Item,
    R: Reconcile<K> + 'static,
{
    pub fn new(name: &'static str, reconciler: R) -> Self {
        Self {
            name,
            reconciler,
            watches: Vec::new(),
            reads: Vec::new(),
            workers: WORKERS,
            limits: Limits::default(),
            resync: None,
        }
    }

    /// Wakes the keys that `map` makes of each change; for what is there at the start the change is an addition. The
    /// function sees the change only to tell whom it concerns, and an empty answer is how a change is filtered out.
    #[must_use]
    pub fn watches(
        mut self,
        resource: GroupResource,
        map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        let map = Arc::new(map);
        self.watches.push(Watched { resource, map });
        self
    }

    /// The reconciler reads the cache of this resource, though its changes wake nobody.
    #[must_use]
    pub fn reads(mut self, resource: GroupResource) -> Self {
        self.reads.push(resource);
        self
    }

    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    /// How retries are slowed down.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Wakes everything again each time this period has passed, whatever happened.
    #[must_use]
    pub fn resync_every(self, period: Duration) -> Self {
        let resync = Some(period);
        Self { resync, ..self }
    }

    /// Waits until the caches are filled, then works until stopped. Reconciles that run are finished.
    pub async fn run(self, context: &Context, stop: CancellationToken) -> Result<(), Error> {
        let queue = Queue::with_limits(context.clock.clone(), self.limits);
        let sources = self.sources(context)?;
        let caches = self.caches(context)?;
        let counters = Arc::new(Counters::default());
        let gauge = queue.clone();
        context
            .metrics
            .register(self.name, move || gauge.metrics(), counters.clone());
        if !all_synced(&caches, &stop).await {
            return Ok(());
        }
        let mut parts = JoinSet::new();
        for (i, (cache, _)) in sources.iter().enumerate() {
            let informer = self.informer(cache.clone(), context);
            parts.spawn(feed(informer, i, sources.clone(), queue.clone(), stop.clone()));
        }
        let shop = Shop {
            name: self.name,
            reconciler: self.reconciler,
            queue: queue.clone(),
            caches,
            clock: context.clock.clone(),
            counters,
        };
        let shop = Arc::new(shop);
        for _ in 0..self.workers {
            parts.spawn(work(shop.clone(), stop.clone()));
        }
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = finish(self.name, &mut parts) => ended,
        };
        queue.shut_down();
        ended.and(finish(self.name, &mut parts).await)
    }

    fn sources(&self, context: &Context) -> Result<Sources<K>, Error> {
        let source = |watched: &Watched<K>| {
            let cache = context.cache(&watched.resource)?;
            Ok((cache, watched.map.clone()))
        };
        self.watches.iter().map(source).collect()
    }

    fn caches(&self, context: &Context) -> Result<Vec<Arc<Cache>>, Error> {
        let watched = self.watches.iter().map(|watched| &watched.resource);
        let mut resources: Vec<_> = watched.chain(&self.reads).collect();
        resources.sort();
        resources.dedup();
        resources
            .into_iter()
            .map(|resource| context.cache(resource))
            .collect()
    }

    fn informer(&self, cache: Arc<Cache>, context: &Context) -> Informer {
        let informer = Informer::new(cache, context.clock.clone());
        match self.resync {
            Some(period) => informer.resync_every(period),
            None => informer,
        }
    }
}

impl<R> Controller<R, Key>
where
    R: Reconcile<Key> + 'static,
{
    /// Wakes each object of type `T` when it changes.
    #[must_use]
    pub fn reconciles<T: Object>(self) -> Self {
        self.watches(T::resource().group_resource(), itself)
    }

    /// Wakes the `T` that controls an object of type `U` when that changes.
    #[must_use]
    pub fn owns<T: Object, U: Object>(self) -> Self {
        self.watches(U::resource().group_resource(), owner::controllers_of::<T>)
    }
}

impl<R, K: Item> fmt::Debug for Controller<R, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watches = self.watches.iter().map(|watched| &watched.resource);
        let watches: Vec<_> = watches.collect();
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("watches", &watches)
            .finish_non_exhaustive()
    }
}

/// Keeps the queue told of one of the sources.
async fn feed<K: Item>(
    informer: Informer,
    which: usize,
    sources: Sources<K>,
    queue: Queue<K>,
    stop: CancellationToken,
) {
    let (_, map) = &sources[which];
    let handle = |notice: Notice<'_>| match notice {
        Notice::Present(object) => wake(&queue, map, &Change::Added(object.clone())),
        Notice::Changed(change) => wake(&queue, map, change),
        Notice::Gap => wake_everything(&queue, &sources),
    };
    informer.run(handle, stop).await;
}

fn wake<K: Item>(queue: &Queue<K>, map: &Map<K>, change: &Change) {
    map(change).into_iter().for_each(|key| queue.add(key));
}

/// After a gap nobody knows whom the missed changes concerned. Each object that is there in any of the sources wakes its
/// keys, so that an owner whose object went unseen is woken by itself.
fn wake_everything<K: Item>(queue: &Queue<K>, sources: &Sources<K>) {
    for (cache, map) in sources.iter() {
        let snapshot = cache.snapshot();
        snapshot
            .iter()
            .for_each(|object| wake(queue, map, &Change::Added(object.clone())));
    }
}

/// Whether the caches are filled; not so if the stop comes first.
async fn all_synced(caches: &[Arc<Cache>], stop: &CancellationToken) -> bool {
    let synced = async {
        for cache in caches {
            cache.synced().await;
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => false,
        () = synced => true,
    }
}

/// Waits for all parts; the first that panics is an error.
async fn finish(name: &str, parts: &mut JoinSet<()>) -> Result<(), Error> {
    while let Some(part) = parts.join_next().await {
        if part.is_err_and(|error| error.is_panic()) {
            return Err(Error::Panicked(name.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
