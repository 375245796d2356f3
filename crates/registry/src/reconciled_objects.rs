//! [`ReconciledObjects`]: the stored objects that were found to be as their bootstrap objects require.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use setpoint_api::Stored;
use setpoint_schema::Tree;

/// The stored objects that need no reconciliation. A cluster and its forks share them, as they share the objects: what one
/// of them has checked, no other decodes again until it changes.
#[derive(Debug, Default)]
pub(crate) struct ReconciledObjects {
    /// By storage key. The object is compared by its address, since forks use the same resource versions for different
    /// content.
    objects: Mutex<HashMap<Bytes, ReconciledObject>>,
}

#[derive(Debug)]
struct ReconciledObject {
    object: Arc<Stored>,
    /// The hash of the bootstrap object, which differs between servers for those that describe the server.
    desired: u64,
}

impl ReconciledObjects {
    /// Whether this object was reconciled with this bootstrap object.
    pub(crate) fn contains(&self, key: &Bytes, object: &Arc<Stored>, desired: &Tree) -> bool {
        let desired = hash(desired);
        let objects = self.objects.lock();
        let known = objects.get(key);
        known.is_some_and(|known| known.desired == desired && Arc::ptr_eq(&known.object, object))
    }

    pub(crate) fn insert(&self, key: Bytes, object: Arc<Stored>, desired: &Tree) {
        let desired = hash(desired);
        let reconciled = ReconciledObject { object, desired };
        self.objects.lock().insert(key, reconciled);
    }
}

fn hash(tree: &Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    tree.hash(&mut hasher);
    hasher.finish()
}
