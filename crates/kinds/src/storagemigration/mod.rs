//! The `storagemigration.k8s.io` group: rewriting stored objects in the current storage version.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod storage_version_migration;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<
        storage_version_migration::StorageVersionMigration,
    >::new())]
}
