//! [`WatchCaches`]: the served kinds and the caches of their objects, filled from the store.
//!
//! They are built before everything that reads them: the authorizers, which the registry's admission needs, and the
//! registry itself. [`crate::Registry::run`] keeps them up to date.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use setpoint_api::{GroupResource, ResourceVersion};
use setpoint_cache::{Cache, Caches};
use setpoint_store::{Revision, Snapshot, Store};
use setpoint_strategy::Kinds;

use crate::backend::{Backend, Backends, Stores};
use crate::crd::{self, CustomKinds};
use crate::key;
use crate::reconciled_objects::ReconciledObjects;
use crate::served_resources::{Resource, ServedResources};

/// The watch caches of a server, one for each resource that it serves.
pub struct WatchCaches {
    backends: Backends,
    served: ArcSwap<ServedResources>,
    /// How often the served kinds were replaced; incremented after the replacement.
    kinds_changed: watch::Sender<u64>,
    /// Shared by forks.
    reconciled: Arc<ReconciledObjects>,
}

impl WatchCaches {
    /// Caches of these built-in kinds, and of the custom kinds in the store, with the objects that the stores have.
    pub fn open(stores: impl Into<Stores>, kinds: Arc<Kinds>) -> Arc<Self> {
        let backends = Backends::from(stores.into());
        let caches = Self {
            served: ArcSwap::from_pointee(ServedResources::new(kinds, &backends)),
            backends,
            kinds_changed: watch::Sender::new(0),
            reconciled: Arc::default(),
        };
        for backend in caches.backends.iter() {
            caches.fill(backend);
        }
        Arc::new(caches)
    }

    /// Caches of a fork of the store, which then diverge from these: they have every change that was acknowledged before
    /// this call. Objects, indexes, history and compiled kinds are shared, so this takes no time or memory for them.
    ///
    /// The caches may be a few batches behind the store. The fork has these batches in its history, and its registry
    /// applies them when it runs.
    pub fn fork(&self) -> Arc<Self> {
        let (backends, served) = self.backends.fork_with(|backends| self.served().fork(backends));
        Arc::new(Self {
            served: ArcSwap::from_pointee(served),
            backends,
            kinds_changed: watch::Sender::new(0),
            reconciled: self.reconciled.clone(),
        })
    }

    /// The default store.
    pub fn store(&self) -> &Store {
        &self.backends.default_backend().store
    }

    /// All stores, the default one first, then the others in the order in which they were added.
    pub fn stores(&self) -> impl Iterator<Item = &Store> {
        self.backends.iter().map(|backend| &backend.store)
    }

    pub(crate) fn backends(&self) -> &Backends {
        &self.backends
    }

    /// The objects that bootstrap objects were reconciled with.
    pub(crate) fn reconciled(&self) -> &ReconciledObjects {
        &self.reconciled
    }

    /// The kinds that are served now.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.served.load().kinds.clone()
    }

    /// Notifies each time the served kinds have changed.
    pub(crate) fn kinds_changed(&self) -> watch::Receiver<u64> {
        self.kinds_changed.subscribe()
    }

    pub(crate) fn served(&self) -> arc_swap::Guard<Arc<ServedResources>> {
        self.served.load()
    }

    /// Fills the caches of a backend's resources from a snapshot of its store. Returns the revision of the snapshot.
    pub(crate) fn fill(&self, backend: &Backend) -> Revision {
        let _applying = backend.apply_lock();
        let snapshot = backend.store.snapshot();
        let version = key::version(snapshot.revision());
        for resource in self.served().resources() {
            if resource.backend.is(backend) {
                fill_cache(resource, &snapshot, version);
            }
        }
        backend.progress.advance(version);
        if backend.is(self.backends.default_backend()) {
            self.refresh_custom_kinds(version);
        }
        snapshot.revision()
    }

    /// Serves the kinds of the current CustomResourceDefinitions, if they have changed. Caches of new resources are
    /// filled as of `version`, which the other caches of the default backend have reached.
    pub(crate) fn refresh_custom_kinds(&self, version: ResourceVersion) {
        let served = self.served();
        let Some(crds) = served.resource(&crd::resource()) else {
            return;
        };
        let custom = CustomKinds::of(&crds.cache.snapshot(), &served.custom);
        if custom.is_same(&served.custom) {
            return;
        }
        let new = served.with_custom_kinds(custom, &self.backends);
        let unknown = |resource: &&Arc<Resource>| served.resource(&resource.name).is_none();
        for resource in new.resources().filter(unknown) {
            let store = &resource.backend.store;
            let snapshot = store.snapshot_at(key::revision(version));
            let snapshot = snapshot.unwrap_or_else(|_| store.snapshot());
            fill_cache(resource, &snapshot, version);
        }
        self.served.store(Arc::new(new));
        self.kinds_changed.send_modify(|times| *times += 1);
    }
}

/// Replaces the content of a resource's cache by the objects of a snapshot.
fn fill_cache(resource: &Resource, snapshot: &Snapshot, version: ResourceVersion) {
    let records = snapshot.prefix(resource.prefix.as_bytes());
    let objects = records
        .filter_map(|record| resource.decode_for_cache(&record))
        .collect();
    resource.cache.replace(objects, version);
}

impl Caches for WatchCaches {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        Some(self.served().resource(resource)?.cache.clone())
    }
}

impl fmt::Debug for WatchCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchCaches")
            .field("kinds", &self.kinds().len())
            .field("backends", &self.backends)
            .finish_non_exhaustive()
    }
}
