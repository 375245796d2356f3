//! Resources that come and go while a controller runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Change, Clock, GroupResource};
use setpoint_cache::{Cache, Caches};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::feed::{wake, wake_everything};
use super::{Context, Map};
use crate::informer::{Informer, Notice, Told};
use crate::queue::{Priority, Queue};
use crate::reconcile::Item;

/// The list, and which keys a change of one of them concerns.
pub(super) struct Listed<K> {
    pub(super) list: List,
    map: MapOf<K>,
    all: All<K>,
}

/// The resources to follow, at any time.
pub type List = watch::Receiver<Vec<GroupResource>>;

pub(super) type MapOf<K> = Arc<dyn Fn(&GroupResource, &Change) -> Vec<K> + Send + Sync>;

/// What is followed now, for all who follow.
type All<K> = Arc<Mutex<HashMap<GroupResource, Followed<K>>>>;

/// One resource that is followed, until the stop.
#[derive(Clone)]
struct Followed<K> {
    cache: Arc<Cache>,
    map: Map<K>,
    told: Told,
    stop: CancellationToken,
}

/// What the followers have in common.
struct Following<K: Item> {
    caches: Arc<dyn Caches>,
    clock: Arc<dyn Clock>,
    queue: Queue<K>,
    stop: CancellationToken,
    all: All<K>,
    feeds: JoinSet<()>,
}

// === impl Listed ===

impl<K: Item> Listed<K> {
    pub(super) fn new(list: List, map: MapOf<K>) -> Self {
        let all = Arc::default();
        Self { list, map, all }
    }

    /// How far those have come who follow now.
    pub(super) fn told(&self) -> impl Fn() -> Vec<Told> + Send + Sync + use<K> {
        let all = self.all.clone();
        move || all.lock().values().map(|one| one.told.clone()).collect()
    }

    /// Keeps the queue told of the resources in the list, as it is at any time, until stopped.
    pub(super) async fn follow(mut self, context: Context, queue: Queue<K>, stop: CancellationToken) {
        let mut following = Following {
            caches: context.caches,
            clock: context.clock,
            queue,
            stop: stop.clone(),
            all: self.all.clone(),
            feeds: JoinSet::new(),
        };
        loop {
            let list = self.list.borrow_and_update().clone();
            following.update(&list, &self.map);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = following.feeds.join_next() => check(ended),
                () = changed(&mut self.list) => {}
            }
        }
        while let Some(ended) = following.feeds.join_next().await {
            check(ended);
        }
    }
}

/// Resolves when the list has changed; never, if nobody is left to change it.
async fn changed(list: &mut List) {
    if list.changed().await.is_err() {
        std::future::pending().await
    }
}

/// A feed that panicked is a panic here.
fn check(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

// === impl Following ===

impl<K: Item> Following<K> {
    /// Follows what is new in the list, and nothing that is not in it any more. A resource that went and came back has
    /// another cache.
    fn update(&mut self, list: &[GroupResource], map: &MapOf<K>) {
        let listed: HashSet<&GroupResource> = list.iter().collect();
        let mut all = self.all.lock();
        let before = all.len();
        all.retain(|resource, followed| {
            let stays = listed.contains(resource) && self.is_served(resource, &followed.cache);
            if !stays {
                followed.stop.cancel();
            }
            stays
        });
        let some_went = all.len() < before;
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
            let followed = Followed {
                cache,
                told: informer.told(),
                map: Arc::new(move |change: &Change| map(&own, change)),
                stop: self.stop.child_token(),
            };
            all.insert(resource.clone(), followed.clone());
            let cache = followed.cache.clone();
            let feed = feed(informer, followed, self.queue.clone(), self.all.clone());
            self.feeds.spawn(cache.ride(feed));
        }
        drop(all);
        if some_went {
            // The last that happened to them may not have been told.
            wake_all(&self.queue, &self.all);
        }
    }

    fn is_served(&self, resource: &GroupResource, cache: &Arc<Cache>) -> bool {
        let served = self.caches.cache(resource);
        served.is_some_and(|served| Arc::ptr_eq(&served, cache))
    }
}

/// Keeps the queue told of one resource.
async fn feed<K: Item>(informer: Informer, followed: Followed<K>, queue: Queue<K>, all: All<K>) {
    let handle = |notice: Notice<'_>| match notice {
        Notice::Present(object) => {
            let change = Change::Added(object.clone());
            wake(&queue, &followed.map, &change, Priority::BACKGROUND);
        }
        Notice::Changed(change) => wake(&queue, &followed.map, change, Priority::CHANGE),
        Notice::Gap => wake_all(&queue, &all),
    };
    informer.run(handle, followed.stop.clone()).await;
}

fn wake_all<K: Item>(queue: &Queue<K>, all: &All<K>) {
    let sources: Vec<_> = {
        let all = all.lock();
        let source = |one: &Followed<K>| (one.cache.clone(), one.map.clone());
        all.values().map(source).collect()
    };
    wake_everything(queue, &sources);
}
