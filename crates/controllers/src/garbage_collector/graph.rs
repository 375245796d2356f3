//! The ownership graph, read from the caches of all served resources.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use parking_lot::RwLock;
use serde::Deserialize;
use setpoint_api::object::OwnerReference;
use setpoint_api::{Change, GroupResource, Key, Stored};
use setpoint_runtime::{Cache, Caches};

use super::plan::{FOREGROUND, OwnerState};
use crate::resources::{ObjectRef, Resource, Resources};

/// The index by the uid of the controlling owner, which every cache has.
const CONTROLLED: &str = "owner";
/// The index by the uids of all other owners.
const OWNED: &str = "other-owner";

/// All served resources and their caches.
pub(super) struct Graph {
    caches: Arc<dyn Caches>,
    /// Replaced as a whole when the served resources change.
    served: RwLock<Arc<ServedCaches>>,
}

/// The served resources at one time.
#[derive(Debug, Default)]
pub(super) struct ServedCaches {
    pub(super) resources: Resources,
    /// In the order of `resources`; `None` for a resource that is no longer served.
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

impl ServedCaches {
    /// Whether changes of the owner are watched. Kinds that are not served, or served by aggregated API servers, are
    /// not.
    pub(super) fn is_watched(&self, owner: &OwnerReference) -> bool {
        let resource_index = self.resources.find_kind(&owner.api_version, &owner.kind);
        resource_index.is_some_and(|resource_index| self.caches[resource_index].is_some())
    }
}

impl Graph {
    pub(super) fn new(caches: Arc<dyn Caches>) -> Self {
        let served = RwLock::default();
        Self { caches, served }
    }

    /// Updates the graph to the resources served now, and returns them.
    pub(super) fn update(&self, resources: &Resources) -> Vec<GroupResource> {
        let before = self.served();
        let all = before.resources.clone().and(resources);
        let cache_of = |resource: &Resource| {
            let cache = self.caches.cache(&resource.gvr.group_resource())?;
            cache.add_index(OWNED, other_owners);
            Some(cache)
        };
        let caches = all.iter().map(cache_of).collect();
        *self.served.write() = Arc::new(ServedCaches {
            resources: all,
            caches,
        });
        let names = resources.iter().map(|resource| resource.gvr.group_resource());
        names.collect()
    }

    pub(super) fn served(&self) -> Arc<ServedCaches> {
        self.served.read().clone()
    }

    pub(super) fn find(&self, item: &ObjectRef) -> Option<Arc<Stored>> {
        self.served().caches[item.resource_index]
            .as_ref()?
            .find(&item.key)
    }

    /// All objects that have an owner reference with this uid.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(ObjectRef, Arc<Stored>)> {
        let mut found = Vec::new();
        for (resource_index, cache) in self.served().caches.iter().enumerate() {
            for index in [CONTROLLED, OWNED] {
                let objects = cache.iter().flat_map(|cache| cache.indexed(index, uid));
                found.extend(objects.map(|object| (ObjectRef::of(resource_index, &object), object)));
            }
        }
        found
    }

    /// The object that an owner reference points to; `None` if its kind was never served, or if a cluster-scoped object
    /// references a namespaced one, which is invalid.
    pub(super) fn owner(&self, dependent: &Key, owner: &OwnerReference) -> Option<ObjectRef> {
        let served = self.served();
        let resource_index = served.resources.find_kind(&owner.api_version, &owner.kind)?;
        let is_namespaced = served.resources.at(resource_index).namespaced;
        if is_namespaced && dependent.namespace().is_empty() {
            return None;
        }
        let namespace = if is_namespaced { dependent.namespace() } else { "" };
        Some(ObjectRef {
            resource_index,
            key: Key::new(namespace, &owner.name),
        })
    }

    /// The objects to enqueue after a change.
    pub(super) fn refs_to_enqueue(&self, resource: &GroupResource, change: &Change) -> Vec<ObjectRef> {
        let Some(resource_index) = self.served().resources.resource_index(resource) else {
            return Vec::new();
        };
        let object = change.object();
        let header = object.header();
        let mut items = Vec::new();
        if change.is_deletion() {
            // Its dependents may be deleted now, and an owner that waited for it may continue.
            items.extend(self.dependents(&header.uid).into_iter().map(|(item, _)| item));
            items.extend(self.owners(object));
            return items;
        }
        let is_finishing = header.deleting && header.has_finalizers;
        // Changes of its owners enqueue it by themselves; of its own changes only those of its owner references matter.
        let has_new_owners = change
            .old()
            .is_none_or(|old| old.header().owner_references != header.owner_references);
        if is_finishing || (has_new_owners && !header.owner_references.is_empty()) {
            items.push(ObjectRef::of(resource_index, object));
        }
        if is_finishing {
            items.extend(self.dependents(&header.uid).into_iter().map(|(item, _)| item));
        }
        // An owner may have waited for a reference that was removed.
        if let Some(old) = change
            .old()
            .filter(|old| old.header().owner_references != header.owner_references)
        {
            items.extend(self.owners(old));
        }
        items
    }

    fn owners(&self, object: &Stored) -> Vec<ObjectRef> {
        let owners = object.header().owner_references.iter();
        owners
            .filter_map(|owner| self.owner(object.key(), owner))
            .collect()
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.served().fmt(f)
    }
}

/// The state of an owner, from the object that its reference points to.
pub(super) fn owner_state(owner: &OwnerReference, found: &Stored) -> OwnerState {
    if found.uid() != owner.uid {
        return OwnerState::Dangling;
    }
    match found.header().deleting && finalizers(found).iter().any(|one| one == FOREGROUND) {
        true => OwnerState::WaitingForDependents,
        false => OwnerState::Solid,
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
    let others = object
        .header()
        .owner_references
        .iter()
        .filter(|owner| !owner.controller);
    others.map(|owner| owner.uid.clone()).collect()
}
