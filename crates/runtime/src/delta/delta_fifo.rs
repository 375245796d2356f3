//! [`DeltaFifo`]: one queue entry for each object, which accumulates its changes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use setpoint_api::{Key, Stored};
use setpoint_cache::Snapshot;

use super::{Deletion, Delta, FifoItem, Population, Transform};

/// The changes of each object since it was last popped, oldest first.
///
/// Two deletions in a row become one; nothing else is merged. The queue itself keeps no objects: the caller passes a
/// snapshot of what it has handled so far where that is needed (client-go's `KnownObjects`).
#[derive(Default)]
pub struct DeltaFifo {
    /// The keys in queue order: exactly those in `slots`.
    order: VecDeque<Key>,
    /// The changes by key; none is empty.
    slots: HashMap<Key, Vec<Delta>>,
    population: Population,
    transform: Option<Transform>,
}

/// The accumulated changes of one object.
#[derive(Debug)]
pub struct Deltas {
    /// The key of the object.
    pub key: Key,
    /// Oldest first, never empty.
    pub deltas: Vec<Delta>,
    /// Whether this belongs to the first list.
    pub is_initial: bool,
}

impl DeltaFifo {
    /// A queue with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue that transforms each object once when it is enqueued, but not on a resync or a missed deletion.
    pub fn with_transform(transform: Transform) -> Self {
        let transform = Some(transform);
        Self {
            transform,
            ..Self::default()
        }
    }

    /// Adds an item of a reflector: see [`crate::reflector::Reflector::with_delta_sink`]. Bookmarks are ignored.
    pub fn enqueue(&mut self, item: FifoItem, known: &Snapshot) {
        match item {
            FifoItem::Delta(Delta::Added(object)) => self.add(object),
            FifoItem::Delta(Delta::Updated(object)) => self.update(object),
            FifoItem::Delta(Delta::Deleted(Deletion::Observed(last))) => self.delete(last, known),
            FifoItem::Delta(delta) => self.push(delta),
            FifoItem::ReplacedAll(objects, _) => self.replace(objects, known),
            FifoItem::SyncAll => self.resync(known),
            FifoItem::Bookmark(_) => {}
        }
    }

    /// Adds an observed addition.
    pub fn add(&mut self, object: Arc<Stored>) {
        self.population.change();
        let object = self.transformed(object);
        self.push(Delta::Added(object));
    }

    /// Adds an observed update.
    pub fn update(&mut self, object: Arc<Stored>) {
        self.population.change();
        let object = self.transformed(object);
        self.push(Delta::Updated(object));
    }

    /// Adds an observed deletion. The deletion of an unknown object is ignored.
    pub fn delete(&mut self, last: Arc<Stored>, known: &Snapshot) {
        self.population.change();
        if self.slots.contains_key(last.key()) || known.find(last.key()).is_some() {
            let last = self.transformed(last);
            self.push(Delta::Deleted(Deletion::Observed(last)));
        }
    }

    /// Adds a list: each of its objects as replaced, then the deletion of every known object that is not in it.
    pub fn replace(&mut self, objects: Vec<Arc<Stored>>, known: &Snapshot) {
        let listed: HashSet<Key> = objects.iter().map(|object| object.key().clone()).collect();
        let missing = self.missing(&listed, known);
        self.population.list(listed.len() + missing.len());
        for object in objects {
            let object = self.transformed(object);
            self.push(Delta::Replaced(object));
        }
        for deletion in missing {
            self.push(Delta::Deleted(deletion));
        }
    }

    /// Adds a resync of every known object that has no pending changes.
    pub fn resync(&mut self, known: &Snapshot) {
        for object in known.iter() {
            if !self.slots.contains_key(object.key()) {
                self.push(Delta::Sync(object.clone()));
            }
        }
    }

    /// The changes of the next object.
    pub fn pop(&mut self) -> Option<Deltas> {
        let key = self.order.pop_front()?;
        let deltas = self.slots.remove(&key).expect("a key in the order has a slot");
        let is_initial = !self.has_synced();
        self.population.take(1);
        Some(Deltas {
            key,
            deltas,
            is_initial,
        })
    }

    /// Whether all of the first list was popped, or changes came before any list.
    pub fn has_synced(&self) -> bool {
        self.population == Population::Done
    }

    /// The number of objects with pending changes.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no object has pending changes.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The pending or known objects that are not in the list, with their last known state.
    fn missing(&self, listed: &HashSet<Key>, known: &Snapshot) -> Vec<Deletion> {
        let waiting = self.order.iter().filter(|key| !listed.contains(*key));
        let waiting = waiting.map(|key| Deletion::FinalStateUnknown {
            key: key.clone(),
            last: self.newest(key).and_then(Delta::object).cloned(),
        });
        let is_gone =
            |object: &&Arc<Stored>| !listed.contains(object.key()) && !self.slots.contains_key(object.key());
        let known = known
            .iter()
            .filter(is_gone)
            .map(|object| Deletion::FinalStateUnknown {
                key: object.key().clone(),
                last: Some(object.clone()),
            });
        waiting.chain(known).collect()
    }

    fn newest(&self, key: &Key) -> Option<&Delta> {
        self.slots.get(key)?.last()
    }

    fn push(&mut self, delta: Delta) {
        let key = delta.key().clone();
        let slot = self.slots.entry(key.clone()).or_default();
        if slot.is_empty() {
            self.order.push_back(key);
        }
        match (slot.last_mut(), delta) {
            // An observed deletion has the final state; a missed one has not.
            (Some(Delta::Deleted(_)), Delta::Deleted(Deletion::FinalStateUnknown { .. })) => {}
            (Some(Delta::Deleted(before)), Delta::Deleted(observed)) => *before = observed,
            (_, delta) => slot.push(delta),
        }
    }

    fn transformed(&self, object: Arc<Stored>) -> Arc<Stored> {
        match &self.transform {
            Some(transform) => transform(object),
            None => object,
        }
    }
}

impl fmt::Debug for DeltaFifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("slots", &self.order)
            .field("population", &self.population)
            .finish_non_exhaustive()
    }
}
