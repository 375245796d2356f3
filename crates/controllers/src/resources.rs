//! The served resources, for the controllers that handle objects of every kind.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use setpoint_api::{GroupResource, Gvk, Gvr, Key};
use tokio::sync::watch;

/// The served resources at any time, with notifications of changes.
#[derive(Clone)]
pub struct ServedResources {
    list: Arc<dyn Fn() -> Resources + Send + Sync>,
    changes: watch::Receiver<u64>,
    /// Notifies of changes in what aggregated API servers serve, if there is an aggregator.
    remote_changes: Option<watch::Receiver<u64>>,
}

/// A served resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    pub gvk: Gvk,
    pub gvr: Gvr,
    pub namespaced: bool,
}

/// A list of resources, each with a stable index.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    all: Vec<Resource>,
    /// Indexes by group and kind.
    by_kind: HashMap<(CompactString, CompactString), usize>,
    by_resource: HashMap<GroupResource, usize>,
    /// Group versions whose resources are unknown, as `group/version`: discovery of their servers failed.
    undiscovered: Vec<String>,
}

/// An object of any kind: the index of its resource, and its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectRef {
    pub(crate) resource_index: usize,
    pub(crate) key: Key,
}

// === impl ServedResources ===

impl ServedResources {
    /// `list` returns the resources; `changes` notifies when they have changed.
    pub fn new(list: impl Fn() -> Resources + Send + Sync + 'static, changes: watch::Receiver<u64>) -> Self {
        let list = Arc::new(list);
        Self {
            list,
            changes,
            remote_changes: None,
        }
    }

    /// The same, where the list also has the resources of aggregated API servers; `remote_changes` notifies of changes
    /// there.
    #[must_use]
    pub fn with_remote_changes(self, remote_changes: watch::Receiver<u64>) -> Self {
        Self {
            remote_changes: Some(remote_changes),
            ..self
        }
    }

    pub(crate) fn now(&self) -> Resources {
        (self.list)()
    }

    /// Sends what `take` derives from the served resources, each time they change.
    pub(crate) async fn follow<T>(mut self, to: watch::Sender<T>, take: impl Fn(&Resources) -> T) {
        while self.changed().await {
            to.send_replace(take(&self.now()));
        }
        // The notifier is gone: they will not change any more.
        std::future::pending().await
    }

    /// Waits for the next change; false if there will be none.
    async fn changed(&mut self) -> bool {
        let changed = match &mut self.remote_changes {
            None => self.changes.changed().await,
            Some(remote_changes) => tokio::select! {
                changed = self.changes.changed() => changed,
                changed = remote_changes.changed() => changed,
            },
        };
        changed.is_ok()
    }
}

/// No resources, ever.
impl Default for ServedResources {
    fn default() -> Self {
        let (_, changes) = watch::channel(0);
        Self::new(Resources::default, changes)
    }
}

impl fmt::Debug for ServedResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedResources").finish_non_exhaustive()
    }
}

// === impl Resources ===

impl Resources {
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.all.iter()
    }

    /// The same with these undiscovered group versions.
    #[must_use]
    pub fn with_undiscovered(self, undiscovered: Vec<String>) -> Self {
        Self { undiscovered, ..self }
    }

    pub(crate) fn undiscovered(&self) -> &[String] {
        &self.undiscovered
    }

    pub(crate) fn at(&self, resource_index: usize) -> &Resource {
        &self.all[resource_index]
    }

    /// The index of a resource.
    pub(crate) fn resource_index(&self, resource: &GroupResource) -> Option<usize> {
        self.by_resource.get(resource).copied()
    }

    /// The same resources with the same indexes, and these in addition. A resource that is no longer served keeps its
    /// index, and its objects are not found.
    pub(crate) fn and(mut self, more: &Resources) -> Self {
        for resource in more.iter() {
            match self.resource_index(&resource.gvr.group_resource()) {
                Some(resource_index) => self.all[resource_index] = resource.clone(),
                None => self.push(resource.clone()),
            }
        }
        self
    }

    fn push(&mut self, resource: Resource) {
        let resource_index = self.all.len();
        let kind = (resource.gvk.group.clone(), resource.gvk.kind.clone());
        self.by_kind.insert(kind, resource_index);
        self.by_resource
            .insert(resource.gvr.group_resource(), resource_index);
        self.all.push(resource);
    }

    /// The index of the kind that an owner reference names, in any version.
    pub(crate) fn find_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.by_kind.get(&(group.into(), kind.into())).copied()
    }
}

impl FromIterator<Resource> for Resources {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        let mut all = Self::default();
        resources.into_iter().for_each(|resource| all.push(resource));
        all
    }
}

impl ObjectRef {
    pub(crate) fn of(resource_index: usize, object: &setpoint_api::Stored) -> Self {
        let key = object.key().clone();
        Self { resource_index, key }
    }
}
