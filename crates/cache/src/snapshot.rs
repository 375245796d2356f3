//! [`Snapshot`]: the objects of a cache at one revision.

use std::sync::Arc;

use imbl::OrdMap;
use setpoint_api::{Change, Key, ResourceVersion, Stored};

use crate::index::Index;

/// All objects as they were at one revision. Taking one costs nanoseconds and blocks neither readers nor the writer.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Everything up to here is in it, nothing later.
    pub version: ResourceVersion,
    state: State,
}

/// The contents of a cache: persistent maps, so that a clone shares everything and costs next to nothing.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) objects: OrdMap<Key, Arc<Stored>>,
    pub(crate) indexes: Vec<Index>,
    /// The revision of the last apply that touched this resource.
    pub(crate) version: ResourceVersion,
    /// The number of changes applied since the cache was created: the position at which a subscriber to this state continues.
    pub(crate) sequence: u64,
}

// === impl Snapshot ===

impl Snapshot {
    pub(crate) fn new(state: State, progress: ResourceVersion) -> Self {
        let version = state.version.max(progress);
        Self { version, state }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.state.sequence
    }

    /// The object of this key at the snapshot's revision.
    pub fn find(&self, key: &Key) -> Option<&Arc<Stored>> {
        self.state.objects.get(key)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.state.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.state.objects.is_empty()
    }

    /// All objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.state.objects.values()
    }

    /// The objects from this key on, itself included, in order: where a page starts.
    pub fn from(&self, key: &Key) -> impl Iterator<Item = &Arc<Stored>> {
        self.state.objects.range(key.clone()..).map(|(_, object)| object)
    }

    /// The objects of one namespace in order, without looking at any other. The empty namespace is the whole cluster.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Stored>> {
        let (start, end) = bounds(namespace);
        self.state.objects.range(start..end).map(|(_, object)| object)
    }

    /// The objects of one namespace from this key on, itself included.
    pub fn in_namespace_from(&self, namespace: &str, key: &Key) -> impl Iterator<Item = &Arc<Stored>> {
        let (start, end) = bounds(namespace);
        let start = start.max(key.clone()).min(end.clone());
        self.state.objects.range(start..end).map(|(_, object)| object)
    }

    /// The objects with this value in an index, by key. The index must have been added to the cache.
    pub fn indexed(&self, index: &str, value: &str) -> Vec<Arc<Stored>> {
        self.state.index(index).find(value)
    }
}

// === impl State ===

impl State {
    pub(crate) fn new() -> Self {
        Self {
            objects: OrdMap::new(),
            indexes: vec![Index::owner()],
            version: ResourceVersion::ZERO,
            sequence: 0,
        }
    }

    /// Applies the changes of one batch, which reached this revision.
    pub(crate) fn apply(&mut self, changes: &[Change], version: ResourceVersion) {
        for change in changes {
            match change {
                Change::Added(new) | Change::Modified { new, .. } => self.insert(new),
                Change::Deleted { old, .. } => self.remove(old.key()),
            }
        }
        self.version = self.version.max(version);
        self.sequence += changes.len() as u64;
    }

    fn insert(&mut self, object: &Arc<Stored>) {
        let old = self.objects.insert(object.key().clone(), object.clone());
        for index in &mut self.indexes {
            match &old {
                Some(old) => index.replace(old, object),
                None => index.insert(object),
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(old) = self.objects.remove(key) else {
            return;
        };
        for index in &mut self.indexes {
            index.remove(&old);
        }
    }

    pub(crate) fn index(&self, name: &str) -> &Index {
        self.indexes
            .iter()
            .find(|index| index.name == name)
            .unwrap_or_else(|| panic!("index {name:?} must be added before it is used"))
    }
}

/// The first key of a namespace and the first after it. In byte order `0` follows `/`.
fn bounds(namespace: &str) -> (Key, Key) {
    match namespace {
        "" => (Key::new("", ""), Key::new("", "\u{10ffff}")),
        namespace => (Key::new(namespace, ""), Key::new("", &format!("{namespace}0"))),
    }
}
