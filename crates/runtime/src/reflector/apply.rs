//! Watch events become changes of the cache.

use std::collections::{HashMap, HashSet};
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
        at = at.max(version_of(&event));
        match event {
            Event::Added(object) | Event::Modified(object) => changes.extend(overlay.put(object)),
            Event::Deleted(last) => changes.extend(overlay.delete(last)),
            Event::Bookmark(_) => {}
            Event::Error(status) => error = Some(*status),
        }
    }
    cache.apply(changes, at);
    error.map_or(Ok(at), Err)
}

/// The last version of each object in the order in which they came first.
pub(crate) fn last_of_each(objects: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
    let mut seen = HashSet::new();
    let mut last: Vec<_> = objects
        .into_iter()
        .rev()
        .filter(|object| seen.insert(object.key().clone()))
        .collect();
    last.reverse();
    last
}

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
