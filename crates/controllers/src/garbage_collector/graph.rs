//! Who owns whom, read from the caches of everything that is served.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::RwLock;
use serde::Deserialize;
use setpoint_api::object::Owner;
use setpoint_api::{Change, GroupResource, Key, Stored};
use setpoint_runtime::{Cache, Caches};

use super::plan::{FOREGROUND, Fate};
use crate::resources::{Item, Resource, Resources};

/// The index by the uid of the controlling owner, which every cache has.
const CONTROLLED: &str = "owner";
/// The index by the uids of all other owners.
const OWNED: &str = "other-owner";

/// Everything that is served, and its caches.
pub(super) struct Graph {
    caches: Arc<dyn Caches>,
    /// Replaced as a whole when something comes or goes.
    known: RwLock<Arc<Known>>,
}

/// What is served at one time.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) resources: Resources,
    /// In the order of `resources`; none for what is gone.
    caches: Vec<Option<Arc<Cache>>>,
}

/// The finalizers of an object, which its header only counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Finalizers {
    metadata: FinalizersMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FinalizersMeta {
    finalizers: Vec<String>,
}

impl Known {
    /// Whether what happens to an owner is seen. Nothing is seen of kinds that are not served, or by other servers.
    pub(super) fn is_followed(&self, owner: &Owner) -> bool {
        let place = self.resources.find_kind(&owner.api_version, &owner.kind);
        place.is_some_and(|place| self.caches[place].is_some())
    }
}

impl Graph {
    pub(super) fn new(caches: Arc<dyn Caches>) -> Self {
        let known = RwLock::default();
        Self { caches, known }
    }

    /// Takes in what is served now; which resources these are.
    pub(super) fn update(&self, resources: &Resources) -> Vec<GroupResource> {
        let before = self.known();
        let all = before.resources.clone().and(resources);
        let cache_of = |resource: &Resource| {
            let cache = self.caches.cache(&resource.gvr.group_resource())?;
            cache.add_index(OWNED, other_owners);
            Some(cache)
        };
        let caches = all.iter().map(cache_of).collect();
        *self.known.write() = Arc::new(Known {
            resources: all,
            caches,
        });
        let names = resources.iter().map(|resource| resource.gvr.group_resource());
        names.collect()
    }

    pub(super) fn known(&self) -> Arc<Known> {
        self.known.read().clone()
    }

    pub(super) fn find(&self, item: &Item) -> Option<Arc<Stored>> {
        self.known().caches[item.place].as_ref()?.find(&item.key)
    }

    /// Everything that names this uid as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(Item, Arc<Stored>)> {
        let mut found = Vec::new();
        for (place, cache) in self.known().caches.iter().enumerate() {
            for index in [CONTROLLED, OWNED] {
                let objects = cache.iter().flat_map(|cache| cache.indexed(index, uid));
                found.extend(objects.map(|object| (Item::of(place, &object), object)));
            }
        }
        found
    }

    /// The object that an owner reference points at; `None` if nothing of its kind was ever served, or if the reference
    /// leads from the whole cluster into a namespace, where it means nothing.
    pub(super) fn owner(&self, dependent: &Key, owner: &Owner) -> Option<Item> {
        let known = self.known();
        let place = known.resources.find_kind(&owner.api_version, &owner.kind)?;
        let is_namespaced = known.resources.at(place).namespaced;
        if is_namespaced && dependent.namespace().is_empty() {
            return None;
        }
        let namespace = if is_namespaced { dependent.namespace() } else { "" };
        Some(Item {
            place,
            key: Key::new(namespace, &owner.name),
        })
    }

    /// The items to look at after a change: see each case.
    pub(super) fn concerned(&self, resource: &GroupResource, change: &Change) -> Vec<Item> {
        let Some(place) = self.known().resources.place(resource) else {
            return Vec::new();
        };
        let object = change.object();
        let header = object.header();
        let mut items = Vec::new();
        if change.is_deletion() {
            // What it owned may go now, and an owner that waited for it may go on.
            items.extend(self.dependents(&header.uid).into_iter().map(|(item, _)| item));
            items.extend(self.owners(object));
            return items;
        }
        let is_finishing = header.deleting && header.has_finalizers;
        // What happens to its owners wakes it from there; of its own changes only those of its owners matter.
        let has_new_owners = change
            .old()
            .is_none_or(|old| old.header().owners != header.owners);
        if is_finishing || (has_new_owners && !header.owners.is_empty()) {
            items.push(Item::of(place, object));
        }
        if is_finishing {
            items.extend(self.dependents(&header.uid).into_iter().map(|(item, _)| item));
        }
        // An owner may have waited for a reference that is gone now.
        if let Some(old) = change.old().filter(|old| old.header().owners != header.owners) {
            items.extend(self.owners(old));
        }
        items
    }

    fn owners(&self, object: &Stored) -> Vec<Item> {
        let owners = object.header().owners.iter();
        owners
            .filter_map(|owner| self.owner(object.key(), owner))
            .collect()
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.known().fmt(f)
    }
}

/// What this object means for those who name it as their owner.
pub(super) fn fate(owner: &Owner, found: &Stored) -> Fate {
    if found.uid() != owner.uid {
        return Fate::Gone;
    }
    match found.header().deleting && finalizers(found).iter().any(|one| one == FOREGROUND) {
        true => Fate::Waiting,
        false => Fate::Solid,
    }
}

pub(super) fn finalizers(object: &Stored) -> Vec<String> {
    if !object.header().has_finalizers {
        return Vec::new();
    }
    let decoded: Finalizers = object.decode().unwrap_or_default();
    decoded.metadata.finalizers
}

fn other_owners(object: &Stored) -> Vec<CompactString> {
    let others = object.header().owners.iter().filter(|owner| !owner.controller);
    others.map(|owner| owner.uid.clone()).collect()
}
