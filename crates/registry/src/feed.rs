//! The feed: what was committed reaches the caches, whole batches in the order of their revisions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::{Change, GroupResource, Key, Stored};
use setpoint_store::{Event, Revision, Watcher};

use crate::definitions;
use crate::error::Error;
use crate::key;
use crate::registry::Registry;
use crate::table::{Resource, Table};

/// One reader of the store, on behalf of all caches.
pub(crate) struct Feed<'a> {
    registry: &'a Registry,
    watcher: Watcher,
    /// The resource whose changes change what is served.
    definitions: GroupResource,
}

/// The changes of one batch, by resource, in the order they came.
#[derive(Default)]
struct Changes {
    by_resource: HashMap<GroupResource, (Arc<Resource>, Vec<Change>)>,
    /// What this batch has written so far, where several changes of one object may follow each other.
    fresh: HashMap<(GroupResource, Key), Arc<Stored>>,
}

impl<'a> Feed<'a> {
    /// A feed that goes on after this revision.
    pub(crate) fn new(registry: &'a Registry, after: Revision) -> Result<Self, Error> {
        let watcher = registry.store.watch(key::ROOT.as_bytes(), after)?;
        Ok(Self {
            registry,
            watcher,
            definitions: definitions::resource(),
        })
    }

    /// Follows the store until it closes. A feed that was cut off by compaction starts over from what is there.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            match self.watcher.next().await {
                Ok(batch) => self.apply(batch.events, batch.revision),
                Err(setpoint_store::Error::Compacted { .. }) => {
                    let after = self.registry.fill();
                    self.watcher = self.registry.store.watch(key::ROOT.as_bytes(), after)?;
                }
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    /// Brings one batch to the caches; only then is its revision reached, for all of them at once.
    fn apply(&self, events: Vec<Event>, revision: Revision) {
        let counters = &self.registry.counters;
        counters.fed_batches.fetch_add(1, Relaxed);
        counters.fed_changes.fetch_add(events.len() as u64, Relaxed);
        let version = key::version(revision);
        let table = self.registry.table();
        let mut changes = Changes::default();
        let several = events.len() > 1;
        for event in events {
            add(&table, &mut changes, event, several);
        }
        let redefines = changes.by_resource.contains_key(&self.definitions);
        for (resource, changes) in changes.by_resource.into_values() {
            resource.cache.apply(changes, version);
        }
        if redefines {
            self.registry.redefine(version);
        }
        self.registry.progress.advance(version);
    }
}

impl Changes {
    /// The object as it was before the event: the very one that readers have, wherever that can be.
    fn old(&self, resource: &Resource, key: &Key, event: &Event) -> Option<Arc<Stored>> {
        let record = event.old.as_ref()?;
        let version = key::version(record.modified);
        let fresh = || self.fresh.get(&(resource.name.clone(), key.clone())).cloned();
        let cached = resource.cache.find(key);
        let is_it = |object: &Arc<Stored>| object.resource_version() == version;
        cached
            .filter(is_it)
            .or_else(|| fresh().filter(is_it))
            .or_else(|| resource.read(record))
    }

    fn push(&mut self, resource: &Arc<Resource>, change: Change) {
        let entry = self
            .by_resource
            .entry(resource.name.clone())
            .or_insert_with(|| (resource.clone(), Vec::new()));
        entry.1.push(change);
    }
}

/// Adds what an event means to the changes of its resource.
fn add(table: &Table, changes: &mut Changes, event: Event, several: bool) {
    let Some((name, text)) = key::split(event.key()) else {
        return;
    };
    // What no kind claims is left alone: a resource of another build, or of a definition that is gone.
    let Some(resource) = table.by_segment(name) else {
        return;
    };
    let Ok(key) = text.parse::<Key>() else { return };
    let old = changes.old(resource, &key, &event);
    let change = match (old, &event.new) {
        (old, Some(record)) => {
            let Some(new) = resource.read(record) else { return };
            if several {
                changes.fresh.insert((resource.name.clone(), key), new.clone());
            }
            match old {
                Some(old) => Change::Modified { old, new },
                None => Change::Added(new),
            }
        }
        (Some(old), None) => {
            let last = resource.restamped(&old, key::version(event.revision));
            let last = last.unwrap_or_else(|_| old.clone());
            Change::Deleted { old, last }
        }
        (None, None) => return,
    };
    changes.push(resource, change);
}
