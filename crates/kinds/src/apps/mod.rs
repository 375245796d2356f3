//! The `apps` group: kinds that keep pods running.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod replica_set;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<replica_set::ReplicaSet>::new())]
}
