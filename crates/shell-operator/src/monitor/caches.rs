//! Caches of a monitor: which of its objects each of them has.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::Key;
use setpoint_runtime::{Cache, Snapshot};

use crate::binding_context::ObjectId;

/// The caches of the informers of a monitor: one for each of its namespaces and names.
#[derive(Default)]
pub(super) struct MonitorCaches(Mutex<Vec<(Namespaces, Arc<Cache>)>>);

/// The namespaces whose objects a monitor takes from a cache.
#[derive(Clone)]
pub(super) enum Namespaces {
    /// All of them.
    All,
    /// This one.
    One(String),
    /// All but those that have a cache of their own.
    AllBut(Arc<BTreeSet<String>>),
}

/// The objects of all caches at one time.
pub(super) struct Snapshots(Vec<(Namespaces, Snapshot)>);

impl MonitorCaches {
    pub(super) fn add(&self, namespaces: Namespaces, cache: Arc<Cache>) {
        self.0.lock().push((namespaces, cache));
    }

    pub(super) fn snapshots(&self) -> Snapshots {
        let caches = self.0.lock();
        let snapshots = caches
            .iter()
            .map(|(namespaces, cache)| (namespaces.clone(), cache.snapshot()));
        Snapshots(snapshots.collect())
    }

    /// The objects of a namespace that has no cache of its own.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Snapshot> {
        let snapshots = self.snapshots().0.into_iter();
        let of_namespace = snapshots.filter(|(namespaces, _)| {
            matches!(namespaces, Namespaces::AllBut(_)) && namespaces.contain(namespace)
        });
        of_namespace.map(|(_, snapshot)| snapshot).collect()
    }
}

impl Snapshots {
    /// Whether one of the caches that are responsible for the object has it.
    pub(super) fn contains(&self, id: &ObjectId) -> bool {
        let key = Key::new(&id.namespace, &id.name);
        let mut responsible = self
            .0
            .iter()
            .filter(|(namespaces, _)| namespaces.contain(&id.namespace));
        responsible.any(|(_, snapshot)| snapshot.find(&key).is_some())
    }
}

impl Namespaces {
    /// The namespaces of an informer; empty for all.
    pub(super) fn of_scope(namespace: &str) -> Self {
        match namespace {
            "" => Self::All,
            namespace => Self::One(namespace.to_owned()),
        }
    }

    fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(own) => own == namespace,
            Self::AllBut(others) => !others.contains(namespace),
        }
    }
}
