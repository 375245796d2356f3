//! Watch events become changes of the cache.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use setpoint_api::{Change, Event, Key, ResourceVersion, Status, Stored};
use setpoint_cache::Cache;

/// Objects as they are after the changes so far, over what the cache has.
struct Overlay<'a> {
    cache: &'a Cache,
    graves: &'a mut Graves,
    ahead: HashMap<Key, Option<Arc<Stored>>>,
}

/// Who has gone lately, so that what a line repeats of them brings nobody back.
#[derive(Debug, Default)]
pub(crate) struct Graves {
    /// Everything up to here was in the last list.
    known: ResourceVersion,
    /// When each went; as many as in `order`, oldest first.
    ends: HashMap<Key, ResourceVersion>,
    order: VecDeque<Key>,
}

/// A line that repeats itself does so soon.
const MAX_GRAVES: usize = 4096;

/// What events that came together come to.
pub(crate) struct Heard {
    /// What the cache lacks yet.
    pub(crate) changes: Vec<Change>,
    /// The revision reached.
    pub(crate) at: ResourceVersion,
    /// What ended the watch, after everything else.
    pub(crate) error: Option<Status>,
}

/// The changes that events which came together make to the cache, where it stands at this revision.
pub(crate) fn changes(
    cache: &Cache,
    graves: &mut Graves,
    events: Vec<Event>,
    mut at: ResourceVersion,
) -> Heard {
    let mut overlay = Overlay {
        cache,
        graves,
        ahead: HashMap::new(),
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
    Heard { changes, at, error }
}

/// The initial state as a streaming list tells it: objects in any order, then what happened to them meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Initial {
    /// Of each object the newest that was told, in the order in which they came first; nothing where that was its end.
    objects: Vec<(ResourceVersion, Option<Arc<Stored>>)>,
    places: HashMap<Key, usize>,
}

// === impl Initial ===

impl Initial {
    pub(crate) fn put(&mut self, object: Arc<Stored>) {
        let version = object.resource_version();
        self.note(object.key().clone(), version, Some(object));
    }

    pub(crate) fn delete(&mut self, last: Arc<Stored>) {
        self.note(last.key().clone(), last.resource_version(), None);
    }

    /// How many objects have come so far.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn into_objects(self) -> Vec<Arc<Stored>> {
        self.objects
            .into_iter()
            .filter_map(|(_, object)| object)
            .collect()
    }

    fn note(&mut self, key: Key, version: ResourceVersion, object: Option<Arc<Stored>>) {
        let place = *self.places.entry(key).or_insert(self.objects.len());
        match self.objects.get_mut(place) {
            None => self.objects.push((version, object)),
            Some(known) if known.0 <= version => *known = (version, object),
            Some(_) => {}
        }
    }
}

// === impl Overlay ===

impl Overlay<'_> {
    fn find(&self, key: &Key) -> Option<Arc<Stored>> {
        match self.ahead.get(key) {
            Some(object) => object.clone(),
            None => self.cache.find(key),
        }
    }

    /// A version that is there already makes no change: a watch that starts over may repeat itself.
    fn put(&mut self, new: Arc<Stored>) -> Option<Change> {
        let change = match self.find(new.key()) {
            Some(old) if old.resource_version() >= new.resource_version() => return None,
            Some(old) => Change::Modified {
                old,
                new: new.clone(),
            },
            None if self.graves.cover(&new) => return None,
            None => Change::Added(new.clone()),
        };
        self.ahead.insert(new.key().clone(), Some(new));
        Some(change)
    }

    /// The end of an older one of the same name is no news, either.
    fn delete(&mut self, last: Arc<Stored>) -> Option<Change> {
        self.graves.bury(&last);
        let old = self.find(last.key())?;
        if old.resource_version() > last.resource_version() {
            return None;
        }
        self.ahead.insert(last.key().clone(), None);
        Some(Change::Deleted { old, last })
    }
}

// === impl Graves ===

impl Graves {
    /// Everything up to this revision is known; what has gone until then needs no grave.
    pub(crate) fn clear(&mut self, known: ResourceVersion) {
        *self = Self {
            known,
            ..Self::default()
        };
    }

    fn bury(&mut self, last: &Stored) {
        let version = last.resource_version();
        let end = self.ends.entry(last.key().clone()).or_insert_with(|| {
            self.order.push_back(last.key().clone());
            version
        });
        *end = version.max(*end);
        if self.order.len() > MAX_GRAVES
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
    }

    /// Whether an object that is not there is one that has gone since it was so.
    fn cover(&self, object: &Stored) -> bool {
        let version = object.resource_version();
        let end = self.ends.get(object.key());
        version <= self.known || end.is_some_and(|end| version <= *end)
    }
}

fn version_of(event: &Event) -> ResourceVersion {
    match event {
        Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => object.resource_version(),
        Event::Bookmark(bookmark) => bookmark.resource_version,
        Event::Error(_) => ResourceVersion::ZERO,
    }
}
