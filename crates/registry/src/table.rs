//! What is served, as one value: replaced as a whole when a kind comes or goes.

use std::collections::HashMap;
use std::sync::Arc;

use setpoint_api::{GroupResource, Gvr};
use setpoint_cache::{Cache, Progress};
use setpoint_kinds::{Kind, Kinds};

use crate::definitions::Defined;
use crate::key;

/// The kinds that are served and the resources that hold their objects.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) kinds: Arc<Kinds>,
    /// The kinds that are always there.
    builtin: Arc<Kinds>,
    pub(crate) defined: Defined,
    served: HashMap<Gvr, Served>,
    resources: HashMap<GroupResource, Arc<Resource>>,
    /// The resources by their part of a store key.
    by_segment: HashMap<String, Arc<Resource>>,
}

/// A kind in one version, and the resource that holds its objects.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) resource: Arc<Resource>,
}

/// One resource: the kind that is stored, its cache, its place in the store.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) name: GroupResource,
    pub(crate) prefix: String,
}

// === impl Table ===

impl Table {
    /// The kinds that are built in.
    pub(crate) fn new(builtin: Arc<Kinds>, progress: &Arc<Progress>) -> Self {
        Self::build(builtin, Defined::default(), progress, None)
    }

    /// The same table with other definitions. Resources that stay keep their caches.
    pub(crate) fn redefined(&self, defined: Defined, progress: &Arc<Progress>) -> Self {
        Self::build(self.builtin.clone(), defined, progress, Some(self))
    }

    fn build(
        builtin: Arc<Kinds>,
        defined: Defined,
        progress: &Arc<Progress>,
        before: Option<&Table>,
    ) -> Self {
        let kinds: Arc<Kinds> = match defined.kinds() {
            custom if custom.is_empty() => builtin.clone(),
            custom => Arc::new(builtin.iter().cloned().chain(custom).collect()),
        };
        let homes = kinds.iter().filter(|kind| kind.about().home == kind.about().gvr);
        let resources: HashMap<GroupResource, Arc<Resource>> = homes
            .map(|kind| {
                let name = kind.about().gvr.group_resource();
                let known = before.and_then(|before| before.resource(&name));
                let resource = match known {
                    Some(known) if Arc::ptr_eq(&known.kind, kind) => known.clone(),
                    known => Arc::new(Resource::new(kind.clone(), progress, known)),
                };
                (name, resource)
            })
            .collect();
        let served = kinds.iter().filter_map(|kind| {
            let resource = resources.get(&kind.about().home.group_resource())?.clone();
            let kind = kind.clone();
            Some((kind.about().gvr.clone(), Served { kind, resource }))
        });
        Self {
            served: served.collect(),
            by_segment: resources
                .values()
                .map(|resource| (resource.name.to_string(), resource.clone()))
                .collect(),
            resources,
            kinds,
            builtin,
            defined,
        }
    }

    pub(crate) fn find(&self, gvr: &Gvr) -> Option<&Served> {
        self.served.get(gvr)
    }

    pub(crate) fn resource(&self, name: &GroupResource) -> Option<&Arc<Resource>> {
        self.resources.get(name)
    }

    /// The resource whose objects have this part in their store keys.
    pub(crate) fn by_segment(&self, segment: &str) -> Option<&Arc<Resource>> {
        self.by_segment.get(segment)
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}

// === impl Resource ===

impl Resource {
    fn new(kind: Arc<dyn Kind>, progress: &Arc<Progress>, known: Option<&Arc<Resource>>) -> Self {
        let name = kind.about().gvr.group_resource();
        let new = || Arc::new(Cache::with_progress(name.clone(), progress.clone()));
        Self {
            cache: known.map_or_else(new, |known| known.cache.clone()),
            prefix: key::prefix(&name),
            kind,
            name,
        }
    }
}
