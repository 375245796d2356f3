//! Watch events become changes of the cache.

use std::collections::HashMap;
use std::sync::Arc;

use setpoint_api::{Change, Event, Key, ResourceVersion, Status, Stored};
use setpoint_cache::Cache;

/// Objects as they are after the changes so far, over what the cache has.
struct Overlay<'a> {
    cache: &'a Cache,
    ahead: HashMap<Key, Option<Arc<Stored>>>,
}

/// Applies events that came together. The revision reached, or the error that ended the watch, after what came before it
/// has been applied.
pub(crate) fn apply(
    cache: &Cache,
    events: Vec<Event>,
    mut at: ResourceVersion,
) -> Result<ResourceVersion, Status> {
    let mut overlay = Overlay {
        cache,
        ahead: HashMap::new(),
    };
    let (mut changes, mut error) = (Vec::new(), None);
    for event in events {
        let version = version_of(&event);
        if let Event::Error(status) = event {
            error = Some(*status);
            continue;
        }
        // Revisions grow along a watch: what comes late has been told, or was overtaken.
        if version < at {
            continue;
        }
        at = version;
        match event {
            Event::Added(object) | Event::Modified(object) => changes.extend(overlay.put(object)),
            Event::Deleted(last) => changes.extend(overlay.delete(last)),
            Event::Bookmark(_) | Event::Error(_) => {}
        }
    }
    cache.apply(changes, at);
    error.map_or(Ok(at), Err)
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
            None => Change::Added(new.clone()),
        };
        self.ahead.insert(new.key().clone(), Some(new));
        Some(change)
    }

    fn delete(&mut self, last: Arc<Stored>) -> Option<Change> {
        let old = self.find(last.key())?;
        self.ahead.insert(last.key().clone(), None);
        Some(Change::Deleted { old, last })
    }
}

fn version_of(event: &Event) -> ResourceVersion {
    match event {
        Event::Added(object) | Event::Modified(object) | Event::Deleted(object) => object.resource_version(),
        Event::Bookmark(bookmark) => bookmark.resource_version,
        Event::Error(_) => ResourceVersion::ZERO,
    }
}
