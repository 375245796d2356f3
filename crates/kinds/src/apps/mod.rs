//! The `apps` group: kinds that keep pods running.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;

pub(crate) mod pods;
pub(crate) mod status_counts;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<controller_revision::ControllerRevision>::new()),
        Arc::new(BuiltinKind::<daemon_set::DaemonSet>::new()),
        Arc::new(BuiltinKind::<deployment::Deployment>::new()),
        Arc::new(BuiltinKind::<replica_set::ReplicaSet>::new()),
        Arc::new(BuiltinKind::<stateful_set::StatefulSet>::new()),
    ]
}
