//! [`Controller`]: the watches that enqueue keys, and the workers that reconcile them.

mod builder;
mod dynamic_watches;
mod sources;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, GroupResource, Gvr, Key};
use setpoint_cache::Cache;
use setpoint_client::Object;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::activity::ActivityRegistration;
use crate::informer::{DeliveryProgress, Informer};
use crate::manager::Context;
use crate::metrics::Counters;
use crate::owner;
use crate::queue::{LaneOf, Options, Queue, RateLimits};
use crate::rbac::RbacRules;
use crate::reconcile::{Error, Item, Reconcile};
use crate::tasks::{self, TaskFuture};
use crate::worker::{AnyReconcile, WorkerContext, run_worker};

pub use builder::{Builder, for_};
pub use dynamic_watches::WatchedResources;

use builder::Settings;
use dynamic_watches::DynamicWatches;
use sources::{ChannelSource, Sources, run_informer};

/// A reconciler, the resources it watches, and its queue and worker settings.
///
/// ```text
/// Controller::new("replicaset-controller", reconciler)
///     .watches(replica_sets, controller::object_key)
///     .watches(pods, owner::controllers_of::<ReplicaSet>)
///     .run(&context, stop)
/// ```
pub struct Controller<K: Item = Key> {
    name: &'static str,
    reconciler: Box<dyn AnyReconcile<K>>,
    watches: Vec<WatchedResource<K>>,
    reads: Vec<ResourceRef>,
    dynamic: Option<DynamicWatches<K>>,
    rbac_rules: RbacRules,
    channels: Vec<ChannelSource<K>>,
    settings: Settings,
    lane_of: Option<LaneOf<K>>,
}

/// A watched resource, and the function that maps its changes to keys.
struct WatchedResource<K> {
    resource: ResourceRef,
    map: MapFunc<K>,
}

/// A resource that is read from a cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ResourceRef {
    /// In any version.
    AnyVersion(GroupResource),
    Version(Gvr),
}

type MapFunc<K> = Arc<dyn Fn(&Change) -> Vec<K> + Send + Sync>;

/// Maps a change to the key of the object itself (controller-runtime's `EnqueueRequestForObject`).
pub fn object_key(change: &Change) -> Vec<Key> {
    vec![change.key().clone()]
}

/// The default of kube-controller-manager for most of its controllers.
const WORKERS: usize = 5;

// === impl Controller ===

impl<K: Item> Controller<K> {
    /// A controller without watches. The name is that in logs and metrics.
    pub fn new(name: &'static str, reconciler: impl Reconcile<K> + 'static) -> Self {
        Self {
            name,
            reconciler: Box::new(reconciler),
            watches: Vec::new(),
            reads: Vec::new(),
            dynamic: None,
            rbac_rules: RbacRules::default(),
            channels: Vec::new(),
            settings: Settings::default(),
            lane_of: None,
        }
    }

    /// Watches a resource: enqueues the keys that `map` returns for each change; objects that exist at the start count as
    /// added. An empty result filters the change out. `map` must not block: one task runs those of all controllers that
    /// watch the resource.
    #[must_use]
    pub fn watches(
        mut self,
        resource: GroupResource,
        map: impl Fn(&Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        self.rbac_rules.read(resource.clone());
        let (resource, map) = (ResourceRef::AnyVersion(resource), Arc::new(map));
        self.watches.push(WatchedResource { resource, map });
        self
    }

    /// Watches the resources in a list, which may grow and shrink: enqueues the keys that `map` returns for each change. The
    /// workers start once the caches of the resources listed at the start have synced.
    #[must_use]
    pub fn watches_dynamic(
        mut self,
        list: WatchedResources,
        map: impl Fn(&GroupResource, &Change) -> Vec<K> + Send + Sync + 'static,
    ) -> Self {
        self.dynamic = Some(DynamicWatches::new(list, Arc::new(map)));
        self
    }

    /// Enqueues the keys that come over a channel, for example from a webhook or from another cluster (controller-runtime's
    /// `source.Channel`). The sender waits while the channel is full.
    #[must_use]
    pub fn watches_channel(mut self, keys: mpsc::Receiver<K>) -> Self {
        self.channels.push(ChannelSource::of_channel(keys));
        self
    }

    /// Declares that the reconciler reads the cache of this resource, without watching it.
    #[must_use]
    pub fn reads(mut self, resource: GroupResource) -> Self {
        self.rbac_rules.read(resource.clone());
        self.reads.push(ResourceRef::AnyVersion(resource));
        self
    }

    /// The number of keys reconciled concurrently (controller-runtime's `MaxConcurrentReconciles`).
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.settings.workers = workers;
        self
    }

    /// The rate limits of retries.
    #[must_use]
    pub fn rate_limits(mut self, limits: RateLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Enqueues every object again each time this period has passed.
    #[must_use]
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Cancels a reconcile that takes longer at its next `.await`, and retries it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// Keys of different lanes take turns, so that many keys of one lane do not delay those of another.
    #[must_use]
    pub fn fair_by(mut self, lane_of: impl Fn(&K) -> Arc<str> + Send + Sync + 'static) -> Self {
        self.lane_of = Some(Arc::new(lane_of));
        self
    }

    /// The name in logs and metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The RBAC rules that the controller needs.
    pub fn rbac_rules(&self) -> &RbacRules {
        &self.rbac_rules
    }

    /// Waits until the caches have synced, then reconciles until stopped. Running reconciles are finished.
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
        let _registration = self.register_activity(context, &queue, &informers);
        if !sources::wait_for_cache_sync(self.name, &caches, &*context.clock, &stop).await {
            return Ok(());
        }
        let mut tasks = JoinSet::new();
        for (i, informer) in informers.into_iter().enumerate() {
            let cache = sources[i].0.clone();
            let task = run_informer(informer, i, sources.clone(), queue.clone(), stop.clone());
            tasks::spawn_shared(&mut tasks, cache, task);
        }
        if let Some(dynamic) = self.dynamic.take() {
            let task = dynamic.run(context.clone(), queue.clone(), stop.clone());
            tasks::spawn(&mut tasks, Box::pin(task));
        }
        for source in std::mem::take(&mut self.channels) {
            tasks::spawn(&mut tasks, source.run(queue.clone(), stop.clone()));
        }
        let worker_context = WorkerContext {
            name: self.name,
            reconciler: self.reconciler,
            client: context.client.clone(),
            queue: queue.clone(),
            caches,
            clock: context.clock.clone(),
            counters,
            timeout: self.settings.timeout,
        };
        let worker_context = Arc::new(worker_context);
        for _ in 0..self.settings.workers {
            let task = run_worker(worker_context.clone(), stop.clone());
            tasks::spawn(&mut tasks, Box::pin(task));
        }
        run_tasks(self.name, tasks, stop, Box::new(move || queue.shut_down())).await
    }

    /// Registers the controller's pending work: changes to deliver, keys that are ready, keys in process.
    fn register_activity(
        &self,
        context: &Context,
        queue: &Queue<K>,
        informers: &[Informer],
    ) -> ActivityRegistration {
        let progress: Vec<DeliveryProgress> = informers.iter().map(Informer::delivery_progress).collect();
        let (queue, dynamic) = (
            queue.clone(),
            self.dynamic.as_ref().map(DynamicWatches::delivery_progress),
        );
        context.activity.register(self.name, move || {
            let dynamic = dynamic.as_ref().map(|progress| progress()).unwrap_or_default();
            let undelivered = progress.iter().chain(&dynamic).find_map(sources::undelivered);
            undelivered.or_else(|| sources::queued_work(&queue))
        })
    }

    fn sources(&self, context: &Context) -> Result<Sources<K>, Error> {
        let source = |watched: &WatchedResource<K>| {
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
        // A resource in a dynamic list may no longer be served; that is no error.
        for resource in self
            .dynamic
            .iter()
            .flat_map(|dynamic| dynamic.list.borrow().clone())
        {
            caches.extend(context.caches.cache(&resource));
        }
        Ok(caches)
    }

    fn informers(&self, sources: &Sources<K>, context: &Context) -> Vec<Informer> {
        let informer = |(cache, _): &(Arc<Cache>, MapFunc<K>)| {
            let informer = Informer::new(cache.clone(), context.clock.clone());
            match self.settings.resync.or_else(|| context.resync.map(jittered)) {
                Some(period) => informer.resync_every(period),
                None => informer,
            }
        };
        sources.iter().map(informer).collect()
    }
}

impl Controller<Key> {
    /// Reconciles objects of type `T`: enqueues each when it changes.
    #[must_use]
    pub fn reconciles<T: Object>(mut self) -> Self {
        self.rbac_rules.reconcile(T::resource().group_resource());
        self.watches.push(WatchedResource::of::<T>(Arc::new(object_key)));
        self
    }

    /// Watches owned objects: enqueues the `T` that controls an object of type `U` when that changes.
    #[must_use]
    pub fn owns<T: Object, U: Object>(mut self) -> Self {
        self.rbac_rules.own(U::resource().group_resource());
        let map = Arc::new(owner::controllers_of::<T>);
        self.watches.push(WatchedResource::of::<U>(map));
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

// === impl WatchedResource ===

impl<K> WatchedResource<K> {
    fn of<T: Object>(map: MapFunc<K>) -> Self {
        let resource = ResourceRef::Version(T::resource());
        Self { resource, map }
    }
}

impl<K> fmt::Debug for WatchedResource<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.resource.fmt(f)
    }
}

// === impl ResourceRef ===

impl ResourceRef {
    fn cache(&self, context: &Context) -> Result<Arc<Cache>, Error> {
        match self {
            Self::AnyVersion(resource) => context.cache(resource),
            Self::Version(resource) => context.cache_of(resource),
        }
    }
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: WORKERS,
            limits: RateLimits::default(),
            resync: None,
            timeout: None,
        }
    }
}

/// The period with jitter: up to a tenth more or less.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(0.9 + 0.2 * rand::random::<f64>())
}

/// Waits until one of the tasks panics or the controller is stopped; then shuts down its queue, and waits for all tasks.
fn run_tasks(
    name: &'static str,
    mut tasks: JoinSet<()>,
    stop: CancellationToken,
    shut_down: Box<dyn FnOnce() + Send>,
) -> TaskFuture<Result<(), Error>> {
    Box::pin(async move {
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = tasks::finish(name, &mut tasks) => ended,
        };
        shut_down();
        ended.and(tasks::finish(name, &mut tasks).await)
    })
}

#[cfg(test)]
mod tests;
