//! What wakes keys: changes in caches, and whatever else a controller listens to.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Change, Clock};
use setpoint_cache::Cache;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Map;
use crate::informer::{Informer, Notice, Told};
use crate::queue::{Priority, Queue};
use crate::reconcile::Item;

/// The caches to follow, each with whom its changes concern.
pub(super) type Sources<K> = Arc<[(Arc<Cache>, Map<K>)]>;

/// Something besides a cache that wakes keys.
pub(super) struct Source<K: Item>(Box<dyn FnOnce(Queue<K>, CancellationToken) -> Feeding + Send>);

type Feeding = Pin<Box<dyn Future<Output = ()> + Send>>;

/// So many keys are named where somebody asks what is being worked on.
const SHOWN_KEYS: usize = 3;
/// After so long controller-runtime gives up; here it is said, and waited on.
const SLOW_SYNC: Duration = Duration::from_secs(120);

// === impl Source ===

impl<K: Item> Source<K> {
    pub(super) fn of_channel(mut keys: mpsc::Receiver<K>) -> Self {
        Self(Box::new(|queue, stop| {
            Box::pin(async move {
                while let Some(Some(key)) = stop.run_until_cancelled(keys.recv()).await {
                    queue.add(key);
                }
                // Whoever is left to send must not think that nobody listens any more.
                stop.cancelled().await;
            })
        }))
    }

    pub(super) fn feed(self, queue: Queue<K>, stop: CancellationToken) -> Feeding {
        (self.0)(queue, stop)
    }
}

/// Whether the caches are filled; not so if the stop comes first. Who waits for long says for what: a kind that nobody has
/// defined, most of the time.
pub(super) async fn all_synced(
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
            () = clock.sleep(SLOW_SYNC) => {
                let missing = caches.iter().filter(|cache| !cache.is_synced());
                let missing: Vec<String> = missing.map(|cache| cache.resource().to_string()).collect();
                tracing::warn!(controller = name, ?missing, "still waiting for what it watches");
            }
        }
    }
}

/// Keeps the queue told of one of the sources.
pub(super) async fn feed<K: Item>(
    informer: Informer,
    which: usize,
    sources: Sources<K>,
    queue: Queue<K>,
    stop: CancellationToken,
) {
    let (_, map) = &sources[which];
    let handle = |notice: Notice<'_>| match notice {
        Notice::Present(object) => {
            let change = Change::Added(object.clone());
            wake(&queue, map, &change, Priority::BACKGROUND);
        }
        Notice::Changed(change) => wake(&queue, map, change, Priority::CHANGE),
        Notice::Gap => wake_everything(&queue, &sources),
    };
    informer.run(handle, stop).await;
}

pub(super) fn wake<K: Item>(queue: &Queue<K>, map: &Map<K>, change: &Change, priority: Priority) {
    map(change)
        .into_iter()
        .for_each(|key| queue.add_with(key, priority));
}

/// After a gap nobody knows whom the missed changes concerned. Each object that is there in any of the sources wakes its
/// keys, so that an owner whose object went unseen is woken by itself.
pub(super) fn wake_everything<K: Item>(queue: &Queue<K>, sources: &[(Arc<Cache>, Map<K>)]) {
    for (cache, map) in sources.iter() {
        let snapshot = cache.snapshot();
        for object in snapshot.iter() {
            let change = Change::Added(object.clone());
            wake(queue, map, &change, Priority::CHANGE);
        }
    }
}

/// That there are changes of which the queue has not been told, if there are.
pub(super) fn behind(told: &Told) -> Option<String> {
    let resource = told.cache().resource();
    (!told.is_current()).then(|| format!("changes of {resource} to be told of"))
}

/// What is ready or in work, if anything is.
pub(super) fn work_of<K: Item>(queue: &Queue<K>) -> Option<String> {
    let in_work = queue.in_work();
    if !in_work.is_empty() {
        let shown = &in_work[..in_work.len().min(SHOWN_KEYS)];
        return Some(format!("{} keys in work, {shown:?} first", in_work.len()));
    }
    let ready = queue.len();
    (ready > 0).then(|| format!("{ready} keys ready"))
}
