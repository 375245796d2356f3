//! [`RealFifo`]: all changes in the order of arrival; a list is one item.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use setpoint_api::{Change, Key, ResourceVersion, Stored};
use setpoint_cache::{Cache, Snapshot};

use super::{Deletion, Delta, Population, Transform};

/// A queue of changes in strict order; nothing is merged or reordered.
#[derive(Default)]
pub struct RealFifo {
    items: VecDeque<FifoItem>,
    population: Population,
    transform: Option<Transform>,
}

/// One item of a queue.
#[derive(Debug, Clone)]
pub enum FifoItem {
    /// One change of one object.
    Delta(Delta),
    /// A whole list at this revision. Known objects that are not in it are deleted.
    ReplacedAll(Vec<Arc<Stored>>, ResourceVersion),
    /// A resync: every known object is delivered again.
    SyncAll,
    /// No further changes up to this revision.
    Bookmark(ResourceVersion),
}

/// The maximum number of deltas in a batch.
const BATCH_DELTAS: usize = 1000;

impl RealFifo {
    /// A queue with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue that transforms each object once when it is enqueued.
    pub fn with_transform(transform: Transform) -> Self {
        let transform = Some(transform);
        Self {
            transform,
            ..Self::default()
        }
    }

    /// Adds an item of a reflector: see [`crate::reflector::Reflector::with_delta_sink`].
    pub fn enqueue(&mut self, item: FifoItem) {
        match item {
            FifoItem::Delta(Delta::Added(object)) => self.add(object),
            FifoItem::Delta(Delta::Updated(object)) => self.update(object),
            FifoItem::Delta(Delta::Deleted(Deletion::Observed(last))) => self.delete(last),
            FifoItem::Delta(delta) => self.change(delta),
            FifoItem::ReplacedAll(objects, version) => self.replace(objects, version),
            FifoItem::SyncAll => self.resync(),
            FifoItem::Bookmark(version) => self.bookmark(version),
        }
    }

    /// Adds an observed addition.
    pub fn add(&mut self, object: Arc<Stored>) {
        let object = self.transformed(object);
        self.change(Delta::Added(object));
    }

    /// Adds an observed update.
    pub fn update(&mut self, object: Arc<Stored>) {
        let object = self.transformed(object);
        self.change(Delta::Updated(object));
    }

    /// Adds an observed deletion.
    pub fn delete(&mut self, last: Arc<Stored>) {
        let last = self.transformed(last);
        self.change(Delta::Deleted(Deletion::Observed(last)));
    }

    /// Adds a list at a revision.
    pub fn replace(&mut self, objects: Vec<Arc<Stored>>, version: ResourceVersion) {
        self.population.list(1);
        let objects = objects
            .into_iter()
            .map(|object| self.transformed(object))
            .collect();
        self.items.push_back(FifoItem::ReplacedAll(objects, version));
    }

    /// Adds a resync of every known object.
    pub fn resync(&mut self) {
        self.items.push_back(FifoItem::SyncAll);
    }

    /// Adds a bookmark: no further changes up to this revision.
    pub fn bookmark(&mut self, version: ResourceVersion) {
        self.items.push_back(FifoItem::Bookmark(version));
    }

    /// The next batch: one list, one resync or one bookmark, or changes of different objects up to a limit. The second
    /// change of an object waits for the next batch, so that the handler gets them one after the other.
    ///
    /// A popped batch counts as handled at the next call, so [`Self::has_synced`] is not early.
    pub fn pop_batch(&mut self) -> Vec<FifoItem> {
        self.mark_popped();
        let mut keys: HashSet<Key> = HashSet::new();
        let mut batch = Vec::new();
        while let Some(item) = self.items.front() {
            let fits = match item {
                FifoItem::Delta(delta) => batch.len() < BATCH_DELTAS && keys.insert(delta.key().clone()),
                _ => batch.is_empty(),
            };
            if !fits {
                break;
            }
            let is_alone = !matches!(item, FifoItem::Delta(_));
            batch.extend(self.items.pop_front());
            if is_alone {
                break;
            }
        }
        batch
    }

    /// Applies all pending items to a cache and returns the deltas to deliver, in order. The cache has the new state before
    /// its delta is delivered; of a list the deletions come first.
    pub fn drain_into(&mut self, cache: &Cache) -> Vec<Delta> {
        let mut deltas = Vec::new();
        loop {
            let batch = self.pop_batch();
            if batch.is_empty() {
                return deltas;
            }
            for item in batch {
                handle(item, cache, &mut deltas);
            }
        }
    }

    /// Whether the first list was handled, or changes came before any list.
    pub fn has_synced(&self) -> bool {
        self.population == Population::Done
    }

    /// The number of pending items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether no item is pending.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Notes that the first list has been handled, if it is no longer in the queue.
    fn mark_popped(&mut self) {
        if self.population == Population::Done {
            return;
        }
        let is_pending = self
            .items
            .iter()
            .any(|item| matches!(item, FifoItem::ReplacedAll(..)));
        if !is_pending {
            self.population.take(1);
        }
    }

    fn change(&mut self, delta: Delta) {
        self.population.change();
        self.items.push_back(FifoItem::Delta(delta));
    }

    fn transformed(&self, object: Arc<Stored>) -> Arc<Stored> {
        match &self.transform {
            Some(transform) => transform(object),
            None => object,
        }
    }
}

impl fmt::Debug for RealFifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealFifo")
            .field("items", &self.items)
            .field("population", &self.population)
            .finish_non_exhaustive()
    }
}

fn handle(item: FifoItem, cache: &Cache, deltas: &mut Vec<Delta>) {
    match item {
        FifoItem::Delta(delta) => deltas.extend(apply(delta, cache)),
        FifoItem::ReplacedAll(objects, version) => {
            let before = cache.snapshot();
            cache.replace(objects.clone(), version);
            deltas.extend(difference(&before, objects));
        }
        FifoItem::SyncAll => deltas.extend(cache.snapshot().iter().cloned().map(Delta::Sync)),
        FifoItem::Bookmark(version) => cache.bookmark(version),
    }
}

/// Applies one change to the cache and returns the delta to deliver. Adding an existing object is an update, and updating
/// an unknown one an addition: a watch may begin anywhere.
fn apply(delta: Delta, cache: &Cache) -> Option<Delta> {
    let old = cache.find(delta.key());
    let (change, delivered) = match (delta, old) {
        (Delta::Deleted(Deletion::Observed(last)), Some(old)) => {
            let last_seen = last.clone();
            (
                Change::Deleted { old, last },
                Delta::Deleted(Deletion::Observed(last_seen)),
            )
        }
        (Delta::Deleted(_), _) => return None,
        (delta, old) => {
            let new = delta.object()?.clone();
            match old {
                Some(old) => (
                    Change::Modified {
                        old,
                        new: new.clone(),
                    },
                    Delta::Updated(new),
                ),
                None => (Change::Added(new.clone()), Delta::Added(new)),
            }
        }
    };
    let version = change.resource_version();
    cache.apply(vec![change], version);
    Some(delivered)
}

/// The deltas of a list: missed deletions first, then the rest in the order of the list. Unchanged objects are a sync.
fn difference(before: &Snapshot, objects: Vec<Arc<Stored>>) -> Vec<Delta> {
    let listed: HashSet<&Key> = objects.iter().map(|object| object.key()).collect();
    let missing = before.iter().filter(|object| !listed.contains(object.key()));
    let mut deltas: Vec<Delta> = missing
        .map(|object| {
            Delta::Deleted(Deletion::FinalStateUnknown {
                key: object.key().clone(),
                last: Some(object.clone()),
            })
        })
        .collect();
    deltas.extend(objects.into_iter().map(|object| match before.find(object.key()) {
        Some(old) if old.resource_version() == object.resource_version() => Delta::Sync(object),
        Some(_) => Delta::Updated(object),
        None => Delta::Added(object),
    }));
    deltas
}
