//! [`BySlot`]: one slot for each object, in the order in which the slots were first needed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use setpoint_api::{Key, Stored};
use setpoint_cache::Snapshot;

use super::{Delta, Fill, Gone, Item, Transform};

/// What happened to each object since it was last taken, oldest first.
///
/// Two deletions in a row become one; nothing else is ever merged. What the owner has handled so far is given as a
/// snapshot where it matters: the queue itself does not keep objects.
#[derive(Default)]
pub struct BySlot {
    /// The order of the slots. A key is here exactly if it has a slot.
    order: VecDeque<Key>,
    /// No slot is empty.
    slots: HashMap<Key, Vec<Delta>>,
    fill: Fill,
    transform: Option<Transform>,
}

/// One object's turn: all that happened to it.
#[derive(Debug)]
pub struct Turn {
    /// Whose turn it is.
    pub key: Key,
    /// Oldest first, never empty.
    pub deltas: Vec<Delta>,
    /// Whether this belongs to the first list.
    pub is_initial: bool,
}

impl BySlot {
    /// A queue with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue that changes objects on their way in, each once; those told again and tombstones have been through it.
    pub fn transforming(transform: Transform) -> Self {
        let transform = Some(transform);
        Self {
            transform,
            ..Self::default()
        }
    }

    /// What a reflector says: see [`crate::reflector::Reflector::telling`]. How far it has come is nothing to tell.
    pub fn hear(&mut self, item: Item, known: &Snapshot) {
        match item {
            Item::One(Delta::Added(object)) => self.add(object),
            Item::One(Delta::Updated(object)) => self.update(object),
            Item::One(Delta::Deleted(Gone::Seen(last))) => self.delete(last, known),
            Item::One(delta) => self.push(delta),
            Item::ReplacedAll(objects, _) => self.replace(objects, known),
            Item::SyncAll => self.resync(known),
            Item::Bookmark(_) => {}
        }
    }

    /// An addition that was watched.
    pub fn add(&mut self, object: Arc<Stored>) {
        self.fill.change();
        let object = self.transformed(object);
        self.push(Delta::Added(object));
    }

    /// A change that was watched.
    pub fn update(&mut self, object: Arc<Stored>) {
        self.fill.change();
        let object = self.transformed(object);
        self.push(Delta::Updated(object));
    }

    /// A deletion that was watched. Of an object that nobody has heard of there is nothing to tell.
    pub fn delete(&mut self, last: Arc<Stored>, known: &Snapshot) {
        self.fill.change();
        if self.slots.contains_key(last.key()) || known.find(last.key()).is_some() {
            let last = self.transformed(last);
            self.push(Delta::Deleted(Gone::Seen(last)));
        }
    }

    /// A whole list: each of its items, then the end of everything known that is not in it.
    pub fn replace(&mut self, objects: Vec<Arc<Stored>>, known: &Snapshot) {
        let listed: HashSet<Key> = objects.iter().map(|object| object.key().clone()).collect();
        let missing = self.missing(&listed, known);
        self.fill.list(listed.len() + missing.len());
        for object in objects {
            let object = self.transformed(object);
            self.push(Delta::Replaced(object));
        }
        for gone in missing {
            self.push(Delta::Deleted(gone));
        }
    }

    /// Everything known is told again, but for what has something newer waiting.
    pub fn resync(&mut self, known: &Snapshot) {
        for object in known.iter() {
            if !self.slots.contains_key(object.key()) {
                self.push(Delta::Sync(object.clone()));
            }
        }
    }

    /// The next object's turn.
    pub fn pop(&mut self) -> Option<Turn> {
        let key = self.order.pop_front()?;
        let deltas = self.slots.remove(&key).expect("a key in the order has a slot");
        let is_initial = !self.has_synced();
        self.fill.take(1);
        Some(Turn {
            key,
            deltas,
            is_initial,
        })
    }

    /// Whether all of the first list was taken, or changes came before any list.
    pub fn has_synced(&self) -> bool {
        self.fill == Fill::Taken
    }

    /// How many objects wait for their turn.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// What is waiting or known and not listed, with the newest that was heard of it.
    fn missing(&self, listed: &HashSet<Key>, known: &Snapshot) -> Vec<Gone> {
        let waiting = self.order.iter().filter(|key| !listed.contains(*key));
        let waiting = waiting.map(|key| Gone::Unseen {
            key: key.clone(),
            last: self.newest(key).and_then(Delta::object).cloned(),
        });
        let is_gone =
            |object: &&Arc<Stored>| !listed.contains(object.key()) && !self.slots.contains_key(object.key());
        let known = known.iter().filter(is_gone).map(|object| Gone::Unseen {
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
            // An end that was seen says more than one that was not.
            (Some(Delta::Deleted(_)), Delta::Deleted(Gone::Unseen { .. })) => {}
            (Some(Delta::Deleted(before)), Delta::Deleted(seen)) => *before = seen,
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

impl fmt::Debug for BySlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BySlot")
            .field("slots", &self.order)
            .field("fill", &self.fill)
            .finish_non_exhaustive()
    }
}
