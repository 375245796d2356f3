//! The served kinds and resources as one immutable value, replaced as a whole when CustomResourceDefinitions change.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use setpoint_api::{GroupResource, Gvr};
use setpoint_cache::Cache;
use setpoint_strategy::{Kind, Kinds};

use crate::backend::{Backend, Backends};
use crate::crd::CustomKinds;
use crate::key;
use crate::metrics::CommitDurations;

/// The kinds that are served and the resources that hold their objects.
#[derive(Debug)]
pub(crate) struct ServedResources {
    pub(crate) kinds: Arc<Kinds>,
    /// The built-in kinds.
    builtin: Arc<Kinds>,
    pub(crate) custom: CustomKinds,
    versions: HashMap<Gvr, ServedVersion, RandomState>,
    resources: HashMap<GroupResource, Arc<Resource>, RandomState>,
    /// The resources by the segment of the store key that names them.
    by_segment: HashMap<String, Arc<Resource>, RandomState>,
}

/// A kind in one version, and the resource that holds its objects.
#[derive(Debug, Clone)]
pub(crate) struct ServedVersion {
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) resource: Arc<Resource>,
}

/// One resource: the kind in its storage version, its cache, its backend, and its key prefix in the store.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) name: GroupResource,
    pub(crate) prefix: String,
    /// The durations of its commits.
    pub(crate) commits: Arc<CommitDurations>,
}

// === impl ServedResources ===

impl ServedResources {
    /// Serves the built-in kinds only.
    pub(crate) fn new(builtin: Arc<Kinds>, backends: &Backends) -> Self {
        Self::build(builtin, CustomKinds::default(), backends, None)
    }

    /// The same built-in kinds with other custom kinds. Resources that stay keep their caches.
    pub(crate) fn with_custom_kinds(&self, custom: CustomKinds, backends: &Backends) -> Self {
        Self::build(self.builtin.clone(), custom, backends, Some(self))
    }

    /// The same kinds, with caches that are forks of these and have these backends.
    pub(crate) fn fork(&self, backends: &Backends) -> Self {
        let fork = |(name, resource): (&GroupResource, &Arc<Resource>)| {
            (name.clone(), Arc::new(resource.fork(backends)))
        };
        let resources: HashMap<GroupResource, Arc<Resource>, RandomState> =
            self.resources.iter().map(fork).collect();
        let versions = self.versions.iter().filter_map(|(gvr, served)| {
            let resource = resources.get(&served.resource.name)?.clone();
            let kind = served.kind.clone();
            Some((gvr.clone(), ServedVersion { kind, resource }))
        });
        let by_segment = self.by_segment.iter().filter_map(|(segment, resource)| {
            let resource = resources.get(&resource.name)?.clone();
            Some((segment.clone(), resource))
        });
        Self {
            kinds: self.kinds.clone(),
            builtin: self.builtin.clone(),
            custom: self.custom.clone(),
            versions: versions.collect(),
            by_segment: by_segment.collect(),
            resources,
        }
    }

    fn build(
        builtin: Arc<Kinds>,
        custom: CustomKinds,
        backends: &Backends,
        before: Option<&ServedResources>,
    ) -> Self {
        let kinds: Arc<Kinds> = match custom.kinds() {
            custom if custom.is_empty() => builtin.clone(),
            custom => Arc::new(builtin.iter().cloned().chain(custom).collect()),
        };
        let stored_kinds = kinds.iter().filter(|kind| kind.info().storage == kind.info().gvr);
        let resources: HashMap<GroupResource, Arc<Resource>, RandomState> = stored_kinds
            .map(|kind| {
                let name = kind.info().gvr.group_resource();
                let existing = before.and_then(|before| before.resource(&name));
                let resource = match existing {
                    Some(existing) if Arc::ptr_eq(&existing.kind, kind) => existing.clone(),
                    existing => Arc::new(Resource::new(kind.clone(), backends, existing)),
                };
                (name, resource)
            })
            .collect();
        let versions = kinds.iter().filter_map(|kind| {
            let resource = resources.get(&kind.info().storage.group_resource())?.clone();
            let kind = kind.clone();
            Some((kind.info().gvr.clone(), ServedVersion { kind, resource }))
        });
        Self {
            versions: versions.collect(),
            by_segment: resources
                .values()
                .map(|resource| (resource.name.to_string(), resource.clone()))
                .collect(),
            resources,
            kinds,
            builtin,
            custom,
        }
    }

    pub(crate) fn find(&self, gvr: &Gvr) -> Option<&ServedVersion> {
        self.versions.get(gvr)
    }

    pub(crate) fn resource(&self, name: &GroupResource) -> Option<&Arc<Resource>> {
        self.resources.get(name)
    }

    /// The resource whose objects have this segment in their store keys.
    pub(crate) fn by_segment(&self, segment: &str) -> Option<&Arc<Resource>> {
        self.by_segment.get(segment)
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

// === impl Resource ===

impl Resource {
    fn new(kind: Arc<dyn Kind>, backends: &Backends, existing: Option<&Arc<Resource>>) -> Self {
        let name = kind.info().gvr.group_resource();
        let backend = backends.of(kind.info()).clone();
        let new = || Arc::new(Cache::with_progress(name.clone(), backend.progress.clone()));
        Self {
            cache: existing.map_or_else(new, |existing| existing.cache.clone()),
            prefix: key::prefix(&name),
            commits: existing
                .map(|existing| existing.commits.clone())
                .unwrap_or_default(),
            kind,
            name,
            backend,
        }
    }

    /// The same resource with a fork of its cache, and metrics of its own.
    fn fork(&self, backends: &Backends) -> Self {
        let backend = backends.counterpart(&self.backend).clone();
        Self {
            kind: self.kind.clone(),
            cache: Arc::new(self.cache.fork(backend.progress.clone())),
            backend,
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            commits: Arc::default(),
        }
    }

    /// Whether its objects are stored, and not computed for each request.
    pub(crate) fn is_stored(&self) -> bool {
        self.kind.info().rules.resource.stored
    }
}
