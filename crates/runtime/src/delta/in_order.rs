//! [`InOrder`]: everything in the order of arrival; a list is one item.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use setpoint_api::{Change, Key, ResourceVersion, Stored};
use setpoint_cache::{Cache, Snapshot};

use super::{Delta, Fill, Gone, Transform};

/// What happened, one thing after the other; nothing is merged and nothing overtakes.
#[derive(Default)]
pub struct InOrder {
    items: VecDeque<Item>,
    fill: Fill,
    transform: Option<Transform>,
}

/// One thing to handle at once.
#[derive(Debug, Clone)]
pub enum Item {
    /// One change of one object.
    One(Delta),
    /// A whole list at this revision. What is known and not in it is gone.
    ReplacedAll(Vec<Arc<Stored>>, ResourceVersion),
    /// The time has come to tell everything again.
    SyncAll,
    /// Nothing happened, up to this revision.
    Bookmark(ResourceVersion),
}

/// So many deltas are handled together at most.
const BATCH_DELTAS: usize = 1000;

impl InOrder {
    /// A queue with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue that changes objects on their way in, each once.
    pub fn transforming(transform: Transform) -> Self {
        let transform = Some(transform);
        Self {
            transform,
            ..Self::default()
        }
    }

    /// What a reflector says: see [`crate::reflector::Reflector::telling`].
    pub fn hear(&mut self, item: Item) {
        match item {
            Item::One(Delta::Added(object)) => self.add(object),
            Item::One(Delta::Updated(object)) => self.update(object),
            Item::One(Delta::Deleted(Gone::Seen(last))) => self.delete(last),
            Item::One(delta) => self.change(delta),
            Item::ReplacedAll(objects, version) => self.replace(objects, version),
            Item::SyncAll => self.resync(),
            Item::Bookmark(version) => self.bookmark(version),
        }
    }

    /// An addition that was watched.
    pub fn add(&mut self, object: Arc<Stored>) {
        let object = self.transformed(object);
        self.change(Delta::Added(object));
    }

    /// A change that was watched.
    pub fn update(&mut self, object: Arc<Stored>) {
        let object = self.transformed(object);
        self.change(Delta::Updated(object));
    }

    /// A deletion that was watched.
    pub fn delete(&mut self, last: Arc<Stored>) {
        let last = self.transformed(last);
        self.change(Delta::Deleted(Gone::Seen(last)));
    }

    /// A whole list at a revision.
    pub fn replace(&mut self, objects: Vec<Arc<Stored>>, version: ResourceVersion) {
        self.fill.list(1);
        let objects = objects
            .into_iter()
            .map(|object| self.transformed(object))
            .collect();
        self.items.push_back(Item::ReplacedAll(objects, version));
    }

    /// The time has come to tell everything again.
    pub fn resync(&mut self) {
        self.items.push_back(Item::SyncAll);
    }

    /// Nothing happened, up to this revision.
    pub fn bookmark(&mut self, version: ResourceVersion) {
        self.items.push_back(Item::Bookmark(version));
    }

    /// The next items to handle together: one list, one resync or one bookmark, or changes of so many different
    /// objects. The second change of an object waits for the next batch, so that nobody is told of both at once.
    ///
    /// What was taken counts as handled at the next call, so [`Self::has_synced`] is not early.
    pub fn pop_batch(&mut self) -> Vec<Item> {
        self.fill_taken();
        let mut keys: HashSet<Key> = HashSet::new();
        let mut batch = Vec::new();
        while let Some(item) = self.items.front() {
            let fits = match item {
                Item::One(delta) => batch.len() < BATCH_DELTAS && keys.insert(delta.key().clone()),
                _ => batch.is_empty(),
            };
            if !fits {
                break;
            }
            let is_alone = !matches!(item, Item::One(_));
            batch.extend(self.items.pop_front());
            if is_alone {
                break;
            }
        }
        batch
    }

    /// Handles everything that waits, by the rules: the cache has the new state before anyone is told, and of a list
    /// the ends are told first. Gives what to tell, in order, each thing with what was there before.
    pub fn drain_into(&mut self, cache: &Cache) -> Vec<Delta> {
        let mut told = Vec::new();
        loop {
            let batch = self.pop_batch();
            if batch.is_empty() {
                return told;
            }
            for item in batch {
                handle(item, cache, &mut told);
            }
        }
    }

    /// Whether the first list was handled, or changes came before any list.
    pub fn has_synced(&self) -> bool {
        self.fill == Fill::Taken
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The list at the front is gone: it was handled by now.
    fn fill_taken(&mut self) {
        if self.fill == Fill::Taken {
            return;
        }
        let waits = self
            .items
            .iter()
            .any(|item| matches!(item, Item::ReplacedAll(..)));
        if !waits {
            self.fill.take(1);
        }
    }

    fn change(&mut self, delta: Delta) {
        self.fill.change();
        self.items.push_back(Item::One(delta));
    }

    fn transformed(&self, object: Arc<Stored>) -> Arc<Stored> {
        match &self.transform {
            Some(transform) => transform(object),
            None => object,
        }
    }
}

impl fmt::Debug for InOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InOrder")
            .field("items", &self.items)
            .field("fill", &self.fill)
            .finish_non_exhaustive()
    }
}

fn handle(item: Item, cache: &Cache, told: &mut Vec<Delta>) {
    match item {
        Item::One(delta) => told.extend(apply(delta, cache)),
        Item::ReplacedAll(objects, version) => {
            let before = cache.snapshot();
            cache.replace(objects.clone(), version);
            told.extend(difference(&before, objects));
        }
        Item::SyncAll => told.extend(cache.snapshot().iter().cloned().map(Delta::Sync)),
        Item::Bookmark(version) => cache.mark(version),
    }
}

/// One change in the cache; what to tell of it. An addition of what is there is an update, and an update of what is not
/// an addition: a watch may begin anywhere.
fn apply(delta: Delta, cache: &Cache) -> Option<Delta> {
    let old = cache.find(delta.key());
    let (change, told) = match (delta, old) {
        (Delta::Deleted(Gone::Seen(last)), Some(old)) => {
            let last_seen = last.clone();
            (
                Change::Deleted { old, last },
                Delta::Deleted(Gone::Seen(last_seen)),
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
    Some(told)
}

/// The ends first, as nobody saw them; then the rest in the order of the list. What is the same as before is not new.
fn difference(before: &Snapshot, objects: Vec<Arc<Stored>>) -> Vec<Delta> {
    let listed: HashSet<&Key> = objects.iter().map(|object| object.key()).collect();
    let gone = before.iter().filter(|object| !listed.contains(object.key()));
    let mut told: Vec<Delta> = gone
        .map(|object| {
            Delta::Deleted(Gone::Unseen {
                key: object.key().clone(),
                last: Some(object.clone()),
            })
        })
        .collect();
    told.extend(objects.into_iter().map(|object| match before.find(object.key()) {
        Some(old) if old.resource_version() == object.resource_version() => Delta::Sync(object),
        Some(_) => Delta::Updated(object),
        None => Delta::Added(object),
    }));
    told
}
