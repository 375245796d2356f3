//! The `storagemigration.k8s.io` group: bringing stored objects to the version that is stored today.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod storage_version_migration;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<
        storage_version_migration::StorageVersionMigration,
    >::new())]
}
