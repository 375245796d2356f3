//! The feed: applies committed changes to the caches, in whole batches and in the order of their revisions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use setpoint_api::{Change, GroupResource, Key, Stored};
use setpoint_store::{Event, Revision, Watcher};

use crate::backend::Backend;
use crate::crd;
use crate::error::Error;
use crate::key;
use crate::registry::Registry;
use crate::served_resources::{Resource, ServedResources};

/// The one watcher of a store that feeds all caches of its resources.
pub(crate) struct Feed<'a> {
    registry: &'a Registry,
    backend: &'a Backend,
    watcher: Watcher,
    /// CustomResourceDefinitions, whose changes change the served kinds.
    crds: GroupResource,
}

/// The changes of one batch, by resource, in the order of their events.
#[derive(Default)]
struct Changes {
    by_resource: HashMap<GroupResource, (Arc<Resource>, Vec<Change>)>,
    /// Objects written by this batch so far, as one batch may change an object several times.
    fresh: HashMap<(GroupResource, Key), Arc<Stored>>,
}

impl<'a> Feed<'a> {
    /// A feed that starts after what the caches have.
    pub(crate) fn new(registry: &'a Registry, backend: &'a Backend) -> Result<Self, Error> {
        let watcher = backend.store.watch(key::ROOT.as_bytes(), backend.reached())?;
        Ok(Self {
            registry,
            backend,
            watcher,
            crds: crd::resource(),
        })
    }

    /// Follows the store until it closes. A feed that fell behind a compaction refills the caches.
    pub(crate) async fn run(mut self) -> Result<(), Error> {
        loop {
            match self.watcher.next().await {
                Ok(batch) => self.apply(batch.events, batch.revision),
                Err(setpoint_store::Error::Compacted { .. }) => {
                    let after = self.registry.caches.fill(self.backend);
                    self.watcher = self.backend.store.watch(key::ROOT.as_bytes(), after)?;
                }
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    /// Applies one batch to the caches; only then do all of them reach its revision, at once.
    fn apply(&self, events: Vec<Event>, revision: Revision) {
        let counters = &self.registry.counters;
        counters.fed_batches.fetch_add(1, Relaxed);
        counters.fed_changes.fetch_add(events.len() as u64, Relaxed);
        let version = key::version(revision);
        let _applying = self.backend.apply_lock();
        let served = self.registry.caches.served();
        let mut changes = Changes::default();
        let several = events.len() > 1;
        for event in events {
            self.add(&served, &mut changes, event, several);
        }
        let changes_kinds = changes.by_resource.contains_key(&self.crds);
        for (resource, changes) in changes.by_resource.into_values() {
            resource.cache.apply(changes, version);
        }
        if changes_kinds {
            self.registry.caches.refresh_custom_kinds(version);
        }
        self.backend.progress.advance(version);
    }

    /// Adds the change of an event to those of its resource.
    fn add(&self, served: &ServedResources, changes: &mut Changes, event: Event, several: bool) {
        let Some((name, text)) = key::split(event.key()) else {
            return;
        };
        // Keys of resources that are not served are skipped: of another build, or of a deleted CustomResourceDefinition. So
        // are those that an override has left behind on this store.
        let resource = served.by_segment(name);
        let Some(resource) = resource.filter(|resource| resource.backend.is(self.backend)) else {
            return;
        };
        let Ok(key) = text.parse::<Key>() else { return };
        let old = changes.old(resource, &key, &event);
        let change = match (old, &event.new) {
            (old, Some(record)) => {
                let Some(new) = resource.decode_for_cache(record) else {
                    return;
                };
                if several {
                    changes.fresh.insert((resource.name.clone(), key), new.clone());
                }
                match old {
                    Some(old) => Change::Modified { old, new },
                    None => Change::Added(new),
                }
            }
            (Some(old), None) => {
                let last = resource.with_version(&old, key::version(event.revision));
                let last = last.unwrap_or_else(|_| old.clone());
                Change::Deleted { old, last }
            }
            (None, None) => return,
        };
        changes.push(resource, change);
    }
}

impl Changes {
    /// The object before the event: the `Arc` that readers share, where it is still cached.
    fn old(&self, resource: &Resource, key: &Key, event: &Event) -> Option<Arc<Stored>> {
        let record = event.old.as_ref()?;
        let version = key::version(record.modified);
        let fresh = || self.fresh.get(&(resource.name.clone(), key.clone())).cloned();
        let cached = resource.cache.find(key);
        let is_it = |object: &Arc<Stored>| object.resource_version() == version;
        cached
            .filter(is_it)
            .or_else(|| fresh().filter(is_it))
            .or_else(|| resource.decode_for_cache(record))
    }

    fn push(&mut self, resource: &Arc<Resource>, change: Change) {
        let entry = self
            .by_resource
            .entry(resource.name.clone())
            .or_insert_with(|| (resource.clone(), Vec::new()));
        entry.1.push(change);
    }
}
