//! Storage backends: the store of the server's objects, and further ones on which some resources are stored instead
//! (upstream: `--etcd-servers-overrides`).
//!
//! Each backend has revisions of its own. So versions of objects are only comparable within a backend, each has its own
//! feed and progress, and no transaction spans two of them; see [`crate::side_writes`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::slice;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use setpoint_api::{GroupResource, ResourceVersion};
use setpoint_cache::Progress;
use setpoint_store::{Revision, Store};
use setpoint_strategy::KindInfo;

use crate::{crd, key};

/// The stores of a server: the default one, and those of resources that are stored elsewhere.
#[derive(Debug)]
pub struct Stores {
    default: Store,
    overrides: Vec<(Store, HashSet<GroupResource>)>,
}

/// All backends. The first is the default one.
#[derive(Debug)]
pub(crate) struct Backends {
    all: Vec<Arc<Backend>>,
    /// The resources that are not stored on the default backend, with the index of theirs.
    overrides: HashMap<GroupResource, usize>,
}

/// One store, and what the caches of its resources have of it.
pub(crate) struct Backend {
    index: usize,
    pub(crate) store: Store,
    /// The version that the caches of its resources have reached.
    pub(crate) progress: Arc<Progress>,
    /// Held while a batch is applied: between two batches, these caches are at the version of `progress`.
    applying: Mutex<()>,
}

// === impl Stores ===

impl From<Store> for Stores {
    fn from(default: Store) -> Self {
        Self {
            default,
            overrides: Vec::new(),
        }
    }
}

impl Stores {
    /// Stores these resources on another store. It applies to built-in kinds; CustomResourceDefinitions and their objects
    /// are always on the default store, as for kube-apiserver.
    #[must_use]
    pub fn with_override(mut self, store: Store, resources: impl IntoIterator<Item = GroupResource>) -> Self {
        self.overrides.push((store, resources.into_iter().collect()));
        self
    }
}

// === impl Backends ===

impl From<Stores> for Backends {
    fn from(stores: Stores) -> Self {
        let mut backends = Self {
            all: vec![Arc::new(Backend::new(0, stores.default, Progress::new()))],
            overrides: HashMap::new(),
        };
        for (store, resources) in stores.overrides {
            let index = backends.all.len();
            backends
                .overrides
                .extend(resources.into_iter().map(|resource| (resource, index)));
            backends
                .all
                .push(Arc::new(Backend::new(index, store, Progress::new())));
        }
        backends
    }
}

impl Backends {
    pub(crate) fn default_backend(&self) -> &Arc<Backend> {
        &self.all[0]
    }

    /// The backend of a kind's resource.
    pub(crate) fn of(&self, info: &KindInfo) -> &Arc<Backend> {
        let resource = info.storage.group_resource();
        match self.overrides.get(&resource) {
            Some(index) if !info.is_custom && resource != crd::resource() => &self.all[*index],
            _ => self.default_backend(),
        }
    }

    pub(crate) fn iter(&self) -> slice::Iter<'_, Arc<Backend>> {
        self.all.iter()
    }

    /// Forks of all stores, and of the caches that `fork_caches` makes for them: between two batches of each.
    pub(crate) fn fork_with<R>(&self, fork_caches: impl FnOnce(&Self) -> R) -> (Self, R) {
        // In the order of their index; a feed holds one of them at a time.
        let _between_batches: Vec<_> = self.all.iter().map(|backend| backend.apply_lock()).collect();
        let fork = Self {
            all: self.all.iter().map(|backend| Arc::new(backend.fork())).collect(),
            overrides: self.overrides.clone(),
        };
        let caches = fork_caches(&fork);
        (fork, caches)
    }

    /// The backend of the same index, such as that of a fork.
    pub(crate) fn counterpart(&self, other: &Backend) -> &Arc<Backend> {
        &self.all[other.index]
    }
}

// === impl Backend ===

impl Backend {
    fn new(index: usize, store: Store, progress: Progress) -> Self {
        Self {
            index,
            store,
            progress: Arc::new(progress),
            applying: Mutex::new(()),
        }
    }

    fn fork(&self) -> Self {
        let progress = Progress::new();
        progress.advance(self.progress.version());
        // What is in the caches is in the store.
        Self::new(self.index, self.store.fork(), progress)
    }

    /// Taken by the writer of the caches for each batch.
    pub(crate) fn apply_lock(&self) -> MutexGuard<'_, ()> {
        self.applying.lock()
    }

    /// Whether both are the same.
    pub(crate) fn is(&self, other: &Backend) -> bool {
        self.index == other.index
    }

    /// The newest version of its store.
    pub(crate) fn newest(&self) -> ResourceVersion {
        key::version(self.store.revision())
    }

    /// The revision that the caches have reached.
    pub(crate) fn reached(&self) -> Revision {
        key::revision(self.progress.version())
    }

    /// Waits until the caches have what the store has now.
    pub(crate) async fn caught_up(&self) {
        self.progress.reached(self.newest()).await;
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend")
            .field("index", &self.index)
            .field("reached", &self.progress.version())
            .finish_non_exhaustive()
    }
}
