//! [`DynamicWatches`]: watches of a list of resources that changes while a controller runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Change, Clock, GroupResource};
use setpoint_cache::{Cache, Caches};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::sources::{enqueue, enqueue_all};
use super::{Context, MapFunc};
use crate::informer::{DeliveryProgress, Event, Informer};
use crate::queue::{Priority, Queue};
use crate::reconcile::Item;
use crate::tasks::{self, TaskFuture};

/// The list of resources, and the function that maps their changes to keys.
pub(super) struct DynamicWatches<K> {
    pub(super) list: WatchedResources,
    map: ResourceMapFunc<K>,
    all: DynamicSources<K>,
}

/// The resources to watch, at any time.
pub type WatchedResources = watch::Receiver<Vec<GroupResource>>;

pub(super) type ResourceMapFunc<K> = Arc<dyn Fn(&GroupResource, &Change) -> Vec<K> + Send + Sync>;

/// The sources watched now, shared by all their informers.
type DynamicSources<K> = Arc<Mutex<HashMap<GroupResource, DynamicSource<K>>>>;

/// One watched resource.
#[derive(Clone)]
struct DynamicSource<K> {
    cache: Arc<Cache>,
    map: MapFunc<K>,
    progress: DeliveryProgress,
    stop: CancellationToken,
}

/// The running informers of the listed resources.
struct RunningInformers<K: Item> {
    caches: Arc<dyn Caches>,
    clock: Arc<dyn Clock>,
    queue: Queue<K>,
    stop: CancellationToken,
    all: DynamicSources<K>,
    tasks: JoinSet<()>,
}

// === impl DynamicWatches ===

impl<K: Item> DynamicWatches<K> {
    pub(super) fn new(list: WatchedResources, map: ResourceMapFunc<K>) -> Self {
        let all = Arc::default();
        Self { list, map, all }
    }

    /// The delivery progress of all current informers.
    pub(super) fn delivery_progress(&self) -> impl Fn() -> Vec<DeliveryProgress> + Send + Sync + use<K> {
        let all = self.all.clone();
        move || all.lock().values().map(|one| one.progress.clone()).collect()
    }

    /// Enqueues the keys of all changes of the listed resources until stopped, and follows changes of the list.
    pub(super) async fn run(mut self, context: Context, queue: Queue<K>, stop: CancellationToken) {
        let mut informers = RunningInformers {
            caches: context.caches,
            clock: context.clock,
            queue,
            stop: stop.clone(),
            all: self.all.clone(),
            tasks: JoinSet::new(),
        };
        loop {
            let list = self.list.borrow_and_update().clone();
            informers.update(&list, &self.map);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = informers.tasks.join_next() => check(ended),
                () = changed(&mut self.list) => {}
            }
        }
        while let Some(ended) = informers.tasks.join_next().await {
            check(ended);
        }
    }
}

/// Resolves when the list has changed; never, once its sender is dropped.
async fn changed(list: &mut WatchedResources) {
    if list.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Resumes the panic of an informer.
fn check(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

// === impl RunningInformers ===

impl<K: Item> RunningInformers<K> {
    /// Starts informers for new resources and stops those that are no longer listed. A resource that was removed and added
    /// again has another cache.
    fn update(&mut self, list: &[GroupResource], map: &ResourceMapFunc<K>) {
        let listed: HashSet<&GroupResource> = list.iter().collect();
        let mut all = self.all.lock();
        let before = all.len();
        all.retain(|resource, source| {
            let is_kept = listed.contains(resource) && self.is_served(resource, &source.cache);
            if !is_kept {
                source.stop.cancel();
            }
            is_kept
        });
        let some_removed = all.len() < before;
        for resource in list {
            let Some(cache) = self
                .caches
                .cache(resource)
                .filter(|_| !all.contains_key(resource))
            else {
                continue;
            };
            let (own, map) = (resource.clone(), map.clone());
            let informer = Informer::new(cache.clone(), self.clock.clone());
            let source = DynamicSource {
                cache,
                progress: informer.delivery_progress(),
                map: Arc::new(move |change: &Change| map(&own, change)),
                stop: self.stop.child_token(),
            };
            all.insert(resource.clone(), source.clone());
            let cache = source.cache.clone();
            let task = run_informer(informer, source, self.queue.clone(), self.all.clone());
            tasks::spawn_shared(&mut self.tasks, cache, task);
        }
        drop(all);
        if some_removed {
            // Their last changes may not have been delivered.
            enqueue_all_dynamic(&self.queue, &self.all);
        }
    }

    fn is_served(&self, resource: &GroupResource, cache: &Arc<Cache>) -> bool {
        let served = self.caches.cache(resource);
        served.is_some_and(|served| Arc::ptr_eq(&served, cache))
    }
}

/// Runs the informer of one resource: enqueues the keys of each of its events.
fn run_informer<K: Item>(
    informer: Informer,
    source: DynamicSource<K>,
    queue: Queue<K>,
    all: DynamicSources<K>,
) -> TaskFuture {
    let stop = source.stop.clone();
    let handle = move |event: Event<'_>| match event {
        Event::Present(object) => {
            let change = Change::Added(object.clone());
            enqueue(&queue, &source.map, &change, Priority::LOW);
        }
        Event::Changed(change) => enqueue(&queue, &source.map, change, Priority::DEFAULT),
        Event::Gap => enqueue_all_dynamic(&queue, &all),
    };
    informer.run_boxed(Box::new(handle), stop)
}

fn enqueue_all_dynamic<K: Item>(queue: &Queue<K>, all: &DynamicSources<K>) {
    let sources: Vec<_> = {
        let all = all.lock();
        let source = |one: &DynamicSource<K>| (one.cache.clone(), one.map.clone());
        all.values().map(source).collect()
    };
    enqueue_all(queue, &sources);
}
