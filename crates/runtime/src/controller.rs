//! [`Controller`]: what wakes a reconciler, and the workers that run it.

mod builder;
mod feed;
mod listed;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, GroupResource, Gvr, Key};
use setpoint_cache::Cache;
use setpoint_client::Object;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::activity::Registered;
use crate::informer::{Informer, Told};
use crate::manager::Context;
use crate::metrics::Counters;
use crate::owner;
use crate::queue::{LaneOf, Limits, Options, Queue};
use crate::reconcile::{Error, Item, Reconcile};
use crate::rights::Rights;
use crate::worker::{AnyReconcile, Shop, work};

pub use builder::{Builder, for_};
pub use listed::List;

use builder::Settings;
use feed::{Source, Sources, feed};
use listed::Listed;

/// A reconciler, the resources whose changes wake it, and how many keys it works on at a time.
///
/// ```text
/// Controller::new("replicaset-controller", reconciler)
///     .watches(replica_sets, controller::itself)
///     .watches(pods, owner::controllers_of::<ReplicaSet>)
///     .run(&context, stop)
/// ```
pub struct Controller<K: Item = Key> {
    name: &'static str,
    reconciler: Box<dyn AnyReconcile<K>>,
    watches: Vec<Watched<K>>,
    reads: Vec<Wanted>,
    listed: Option<Listed<K>>,
    rights: Rights,
    others: Vec<Source<K>>,
    settings: Settings,
    lane_of: Option<LaneOf<K>>,
}

/// A resource, and which keys a change of it concerns.
struct Watched<K> {
    resource: Wanted,
    map: Map<K>,
}

/// A resource that is read from a cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Wanted {
    /// In whatever version there is.
    Any(GroupResource),
    In(Gvr),
}

type Map<K> = Arc<dyn Fn(&Change) -> Vec<K> + Send + Sync>;

/// The key of the object that changed.
pub fn itself(change: &Change) -> Vec<Key> {
    vec![change.key().clone()]
}

/// As many as kube-controller-manager has for most of its controllers.
const WORKERS: usize = 5;

// === impl Controller ===

impl<K: Item> Controller<K> {
    /// A controller that nothing wakes yet. The name is that in logs and figures.
    pub fn new(name: &'static str, reconciler: impl Reconcile<K> + 'static) -> Self {
        Self {
            name,
            reconciler: Box::new(reconciler),
            watches: Vec::new(),
            reads: Vec::new(),
            listed: None,
            rights: Rights::default(),
            others: Vec::new(),
            settings: Settings::default(),
            lane_of: None,
        }
    }

    /// Wakes the keys that `map` makes of each change; for what is there at the start the change is an addition. The
    /// function sees the change only to tell whom it concerns, and an empty answer is how a change is filtered out. It must
    /// not block: all controllers of a resource are told one after the other.
    #[must_use]
    pub fn watches(
        mut self,
        resource: GroupResource,
        map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        self.rights.read(resource.clone());
        let (resource, map) = (Wanted::Any(resource), Arc::new(map));
        self.watches.push(Watched { resource, map });
        self
    }

    /// Wakes the keys that `map` makes of each change of the resources in a list, which may grow and shrink. Work begins
    /// once what is listed at the start is filled.
    #[must_use]
    pub fn watches_listed(
        mut self,
        list: List,
        map: impl Fn(&GroupResource, &Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        self.listed = Some(Listed::new(list, Arc::new(map)));
        self
    }

    /// Wakes the keys that come over a channel: from a webhook, a queue elsewhere, another cluster. Whoever sends waits
    /// while the channel is full.
    #[must_use]
    pub fn woken_by(mut self, keys: mpsc::Receiver<K>) -> Self {
        self.others.push(Source::of_channel(keys));
        self
    }

    /// The reconciler reads the cache of this resource, though its changes wake nobody.
    #[must_use]
    pub fn reads(mut self, resource: GroupResource) -> Self {
        self.rights.read(resource.clone());
        self.reads.push(Wanted::Any(resource));
        self
    }

    /// How many keys are worked on at a time.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// How retries are slowed down.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Wakes everything again each time this period has passed, whatever happened.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// A reconcile that takes longer is dropped at its next wait and tried again.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Keys of different lanes take turns, so that many of one lane do not hold up another.
    #[must_use]
    pub fn fair_by(mut self, lane_of: impl Fn(&K) -> Arc<str> + Send + Sync + 'static) -> Self {
        self.lane_of = Some(Arc::new(lane_of));
        self
    }

    /// The name in logs and figures.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the controller must be allowed to do.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Waits until the caches are filled, then works until stopped. Reconciles that run are finished.
    pub async fn run(mut self, context: &Context, stop: CancellationToken) -> Result<(), Error> {
        let options = Options {
            limits: self.settings.limits,
            lane_of: self.lane_of.clone(),
            ..Options::default()
        };
        let queue = Queue::with(context.clock.clone(), options);
        let sources = self.sources(context)?;
        let caches = self.caches(context)?;
        let counters = Arc::new(Counters::of(self.settings.workers));
        let gauge = queue.clone();
        context
            .metrics
            .register(self.name, move || gauge.metrics(), counters.clone());
        let informers = self.informers(&sources, context);
        let _place = self.tell_activity(context, &queue, &informers);
        if !feed::all_synced(self.name, &caches, &*context.clock, &stop).await {
            return Ok(());
        }
        let mut parts = JoinSet::new();
        for (i, informer) in informers.into_iter().enumerate() {
            let cache = sources[i].0.clone();
            let feed = feed(informer, i, sources.clone(), queue.clone(), stop.clone());
            parts.spawn(cache.ride(feed));
        }
        if let Some(listed) = self.listed.take() {
            parts.spawn(listed.follow(context.clone(), queue.clone(), stop.clone()));
        }
        for source in std::mem::take(&mut self.others) {
            parts.spawn(source.feed(queue.clone(), stop.clone()));
        }
        let shop = Shop {
            name: self.name,
            reconciler: self.reconciler,
            queue: queue.clone(),
            caches,
            clock: context.clock.clone(),
            counters,
            timeout: self.settings.timeout,
        };
        let shop = Arc::new(shop);
        for _ in 0..self.settings.workers {
            parts.spawn(work(shop.clone(), stop.clone()));
        }
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = finish(self.name, &mut parts) => ended,
        };
        queue.shut_down();
        ended.and(finish(self.name, &mut parts).await)
    }

    /// Lets others ask whether there is work: changes to be told, keys that are ready, keys in work.
    fn tell_activity(&self, context: &Context, queue: &Queue<K>, informers: &[Informer]) -> Registered {
        let told: Vec<Told> = informers.iter().map(Informer::told).collect();
        let (queue, listed) = (queue.clone(), self.listed.as_ref().map(Listed::told));
        context.activity.register(self.name, move || {
            let others = listed.as_ref().map(|told| told()).unwrap_or_default();
            let behind = told.iter().chain(&others).find_map(feed::behind);
            behind.or_else(|| feed::work_of(&queue))
        })
    }

    fn sources(&self, context: &Context) -> Result<Sources<K>, Error> {
        let source = |watched: &Watched<K>| {
            let cache = watched.resource.cache(context)?;
            Ok((cache, watched.map.clone()))
        };
        self.watches.iter().map(source).collect()
    }

    fn caches(&self, context: &Context) -> Result<Vec<Arc<Cache>>, Error> {
        let watched = self.watches.iter().map(|watched| &watched.resource);
        let mut resources: Vec<_> = watched.chain(&self.reads).collect();
        resources.sort();
        resources.dedup();
        let caches = resources.into_iter().map(|resource| resource.cache(context));
        let mut caches: Vec<Arc<Cache>> = caches.collect::<Result<_, _>>()?;
        // Of what comes and goes it is no failure that it is gone.
        for resource in self.listed.iter().flat_map(|listed| listed.list.borrow().clone()) {
            caches.extend(context.caches.cache(&resource));
        }
        Ok(caches)
    }

    fn informers(&self, sources: &Sources<K>, context: &Context) -> Vec<Informer> {
        let informer = |(cache, _): &(Arc<Cache>, Map<K>)| {
            let informer = Informer::new(cache.clone(), context.clock.clone());
            match self.settings.resync.or_else(|| context.resync.map(stretched)) {
                Some(period) => informer.resync_every(period),
                None => informer,
            }
        };
        sources.iter().map(informer).collect()
    }
}

impl Controller<Key> {
    /// Wakes each object of type `T` when it changes.
    #[must_use]
    pub fn reconciles<T: Object>(mut self) -> Self {
        self.rights.reconcile(T::resource().group_resource());
        self.watches.push(Watched::of::<T>(Arc::new(itself)));
        self
    }

    /// Wakes the `T` that controls an object of type `U` when that changes.
    #[must_use]
    pub fn owns<T: Object, U: Object>(mut self) -> Self {
        self.rights.own(U::resource().group_resource());
        let map = Arc::new(owner::controllers_of::<T>);
        self.watches.push(Watched::of::<U>(map));
        self
    }

    /// Namespaces take turns.
    #[must_use]
    pub fn fair_by_namespace(self) -> Self {
        self.fair_by(|key| Arc::from(key.namespace()))
    }
}

impl<K: Item> fmt::Debug for Controller<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watches = self.watches.iter().map(|watched| &watched.resource);
        let watches: Vec<_> = watches.collect();
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("watches", &watches)
            .finish_non_exhaustive()
    }
}

// === impl Watched ===

impl<K> Watched<K> {
    fn of<T: Object>(map: Map<K>) -> Self {
        let resource = Wanted::In(T::resource());
        Self { resource, map }
    }
}

impl<K> fmt::Debug for Watched<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resource.fmt(f)
    }
}

// === impl Wanted ===

impl Wanted {
    fn cache(&self, context: &Context) -> Result<Arc<Cache>, Error> {
        match self {
            Self::Any(resource) => context.cache(resource),
            Self::In(resource) => context.cache_of(resource),
        }
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: WORKERS,
            limits: Limits::default(),
            resync: None,
            timeout: None,
        }
    }
}

/// Up to a tenth more or less.
fn stretched(period: Duration) -> Duration {
    period.mul_f64(0.9 + 0.2 * rand::random::<f64>())
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
