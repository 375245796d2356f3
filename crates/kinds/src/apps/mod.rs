//! The `apps` group: kinds that keep pods running.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;

pub(crate) mod counts;
pub(crate) mod pods;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<controller_revision::ControllerRevision>::new()),
        Arc::new(Builtin::<daemon_set::DaemonSet>::new()),
        Arc::new(Builtin::<deployment::Deployment>::new()),
        Arc::new(Builtin::<replica_set::ReplicaSet>::new()),
        Arc::new(Builtin::<stateful_set::StatefulSet>::new()),
    ]
}
