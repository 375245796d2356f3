//! Sources of keys for a controller's queue: changes in caches, and channels.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, Clock};
use setpoint_cache::Cache;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::MapFunc;
use crate::informer::{DeliveryProgress, Event, Informer};
use crate::queue::{Priority, Queue};
use crate::reconcile::Item;
use crate::tasks::TaskFuture;

/// The watched caches, each with the function that maps its changes to keys.
pub(super) type Sources<K> = Arc<[(Arc<Cache>, MapFunc<K>)]>;

/// A source of keys other than a cache.
pub(super) struct ChannelSource<K: Item>(Box<dyn FnOnce(Queue<K>, CancellationToken) -> TaskFuture + Send>);

/// How many keys are named in the description of pending work.
const SHOWN_KEYS: usize = 3;
/// After this time controller-runtime gives up; here a warning is logged, and the wait continues.
const SYNC_WARNING_PERIOD: Duration = Duration::from_secs(120);

// === impl ChannelSource ===

impl<K: Item> ChannelSource<K> {
    pub(super) fn of_channel(mut keys: mpsc::Receiver<K>) -> Self {
        Self(Box::new(|queue, stop| {
            Box::pin(async move {
                while let Some(Some(key)) = stop.run_until_cancelled(keys.recv()).await {
                    queue.add(key);
                }
                // The receiver is_kept open until the stop, so that a late sender gets no error.
                stop.cancelled().await;
            })
        }))
    }

    pub(super) fn run(self, queue: Queue<K>, stop: CancellationToken) -> TaskFuture {
        (self.0)(queue, stop)
    }
}

/// Waits until the caches have synced; false if the stop comes first. After a while it logs which have not, most often a
/// custom resource whose CRD is not installed. Boxed, so that it is compiled once for all types of keys.
pub(super) fn wait_for_cache_sync<'a>(
    name: &'a str,
    caches: &'a [Arc<Cache>],
    clock: &'a dyn Clock,
    stop: &'a CancellationToken,
) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
    Box::pin(synced_or_stopped(name, caches, clock, stop))
}

async fn synced_or_stopped(
    name: &str,
    caches: &[Arc<Cache>],
    clock: &dyn Clock,
    stop: &CancellationToken,
) -> bool {
    let synced = async {
        for cache in caches {
            cache.synced().await;
        }
    };
    tokio::pin!(synced);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return false,
            () = &mut synced => return true,
            () = clock.sleep(SYNC_WARNING_PERIOD) => {
                let missing = caches.iter().filter(|cache| !cache.is_synced());
                let missing: Vec<String> = missing.map(|cache| cache.resource().to_string()).collect();
                tracing::warn!(controller = name, ?missing, "still waiting for caches to sync");
            }
        }
    }
}

/// Runs the informer of one source: enqueues the keys of each of its events.
pub(super) fn run_informer<K: Item>(
    informer: Informer,
    which: usize,
    sources: Sources<K>,
    queue: Queue<K>,
    stop: CancellationToken,
) -> TaskFuture {
    let (_, map) = sources[which].clone();
    let handle = move |event: Event<'_>| match event {
        Event::Present(object) => {
            let change = Change::Added(object.clone());
            enqueue(&queue, &map, &change, Priority::LOW);
        }
        Event::Changed(change) => enqueue(&queue, &map, change, Priority::DEFAULT),
        Event::Gap => enqueue_all(&queue, &sources),
    };
    informer.run_boxed(Box::new(handle), stop)
}

pub(super) fn enqueue<K: Item>(queue: &Queue<K>, map: &MapFunc<K>, change: &Change, priority: Priority) {
    map(change)
        .into_iter()
        .for_each(|key| queue.add_with(key, priority));
}

/// Enqueues the keys of all objects of all sources. After a gap it is unknown which keys the missed changes concern; an
/// owner whose object was deleted unnoticed is enqueued by itself.
pub(super) fn enqueue_all<K: Item>(queue: &Queue<K>, sources: &[(Arc<Cache>, MapFunc<K>)]) {
    for (cache, map) in sources.iter() {
        let snapshot = cache.snapshot();
        for object in snapshot.iter() {
            let change = Change::Added(object.clone());
            enqueue(queue, map, &change, Priority::DEFAULT);
        }
    }
}

/// A description of changes that have not been delivered to the queue, if there are any.
pub(super) fn undelivered(progress: &DeliveryProgress) -> Option<String> {
    let resource = progress.cache().resource();
    (!progress.is_current()).then(|| format!("changes of {resource} to deliver"))
}

/// A description of the keys that are ready or in process, if there are any.
pub(super) fn queued_work<K: Item>(queue: &Queue<K>) -> Option<String> {
    let processing = queue.processing();
    if !processing.is_empty() {
        let shown = &processing[..processing.len().min(SHOWN_KEYS)];
        return Some(format!("{} keys in process, {shown:?} first", processing.len()));
    }
    let ready = queue.len();
    (ready > 0).then(|| format!("{ready} keys ready"))
}
