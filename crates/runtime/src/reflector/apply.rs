//! Turns watch events into changes of the cache. Replayed events make no change.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use setpoint_api::{Change, Event, Key, ResourceVersion, Status, Stored};
use setpoint_cache::Cache;

/// The cache with the pending changes of one batch on top.
struct Overlay<'a> {
    cache: &'a Cache,
    tombstones: &'a mut Tombstones,
    pending: HashMap<Key, Option<Arc<Stored>>>,
}

/// Tombstones of recently deleted objects. A watch may replay old events after a reconnect; an event older than its
/// tombstone is dropped instead of recreating the object.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    /// The revision of the last list, which covers everything up to it.
    listed: ResourceVersion,
    /// The revision of each deletion; the keys are those of `order`, which has the oldest first.
    deleted_at: HashMap<Key, ResourceVersion>,
    order: VecDeque<Key>,
}

/// A replay comes soon after the deletion, so few tombstones are enough.
const MAX_TOMBSTONES: usize = 4096;

/// The result of one batch of watch events.
pub(crate) struct AppliedBatch {
    /// The changes to apply to the cache.
    pub(crate) changes: Vec<Change>,
    /// The revision reached.
    pub(crate) at: ResourceVersion,
    /// The error event that ended the watch, after all other events.
    pub(crate) error: Option<Status>,
}

/// The changes that a batch of events makes to a cache at this revision.
pub(crate) fn changes(
    cache: &Cache,
    tombstones: &mut Tombstones,
    events: Vec<Event>,
    mut at: ResourceVersion,
) -> AppliedBatch {
    let mut overlay = Overlay {
        cache,
        tombstones,
        pending: HashMap::new(),
    };
    let (mut changes, mut error) = (Vec::new(), None);
    for event in events {
        let version = version_of(&event);
        if let Event::Error(status) = event {
            error = Some(*status);
            continue;
        }
        at = at.max(version);
        match event {
            Event::Added(object) | Event::Modified(object) => changes.extend(overlay.put(object)),
            Event::Deleted(last) => changes.extend(overlay.delete(last)),
            Event::Bookmark(_) | Event::Error(_) => {}
        }
    }
    AppliedBatch { changes, at, error }
}

/// The objects of a streaming list: initial events in any order, and changes to them in the meantime.
#[derive(Debug, Default)]
pub(crate) struct InitialState {
    /// The newest version of each object in the order of first appearance; `None` if that was a deletion.
    objects: Vec<(ResourceVersion, Option<Arc<Stored>>)>,
    positions: HashMap<Key, usize>,
}

// === impl InitialState ===

impl InitialState {
    pub(crate) fn put(&mut self, object: Arc<Stored>) {
        let version = object.resource_version();
        self.record(object.key().clone(), version, Some(object));
    }

    pub(crate) fn delete(&mut self, last: Arc<Stored>) {
        self.record(last.key().clone(), last.resource_version(), None);
    }

    /// The number of objects received so far.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn into_objects(self) -> Vec<Arc<Stored>> {
        self.objects
            .into_iter()
            .filter_map(|(_, object)| object)
            .collect()
    }

    fn record(&mut self, key: Key, version: ResourceVersion, object: Option<Arc<Stored>>) {
        let position = *self.positions.entry(key).or_insert(self.objects.len());
        match self.objects.get_mut(position) {
            None => self.objects.push((version, object)),
            Some(newest) if newest.0 <= version => *newest = (version, object),
            Some(_) => {}
        }
    }
}

// === impl Overlay ===

impl Overlay<'_> {
    fn find(&self, key: &Key) -> Option<Arc<Stored>> {
        match self.pending.get(key) {
            Some(object) => object.clone(),
            None => self.cache.find(key),
        }
    }

    /// An added or modified object. A version that is not newer than the cached one makes no change: it is a replay.
    fn put(&mut self, new: Arc<Stored>) -> Option<Change> {
        let change = match self.find(new.key()) {
            Some(old) if old.resource_version() >= new.resource_version() => return None,
            Some(old) => Change::Modified {
                old,
                new: new.clone(),
            },
            None if self.tombstones.covers(&new) => return None,
            None => Change::Added(new.clone()),
        };
        self.pending.insert(new.key().clone(), Some(new));
        Some(change)
    }

    /// A deleted object. The replayed deletion of an older object of the same name makes no change, either.
    fn delete(&mut self, last: Arc<Stored>) -> Option<Change> {
        self.tombstones.add(&last);
        let old = self.find(last.key())?;
        if old.resource_version() > last.resource_version() {
            return None;
        }
        self.pending.insert(last.key().clone(), None);
        Some(Change::Deleted { old, last })
    }
}

// === impl Graves ===

impl Tombstones {
    /// Starts over after a list at this revision, which makes older tombstones unnecessary.
    pub(crate) fn clear(&mut self, listed: ResourceVersion) {
        *self = Self {
            listed,
            ..Self::default()
        };
    }

    fn add(&mut self, last: &Stored) {
        let version = last.resource_version();
        let end = self.deleted_at.entry(last.key().clone()).or_insert_with(|| {
            self.order.push_back(last.key().clone());
            version
        });
        *end = version.max(*end);
        if self.order.len() > MAX_TOMBSTONES
            && let Some(oldest) = self.order.pop_front()
        {
            self.deleted_at.remove(&oldest);
        }
    }

    /// Whether an object that is not in the cache is older than its deletion or than the last list.
    fn covers(&self, object: &Stored) -> bool {
        let version = object.resource_version();
        let end = self.deleted_at.get(object.key());
        version <= self.listed || end.is_some_and(|end| version <= *end)
    }
}

fn version_of(event: &Event) -> ResourceVersion {
    match event {
        Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => object.resource_version(),
        Event::Bookmark(bookmark) => bookmark.resource_version,
        Event::Error(_) => ResourceVersion::ZERO,
    }
}
