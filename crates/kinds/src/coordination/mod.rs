//! The `coordination.k8s.io` group: leases.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod lease;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<lease::Lease>::new())]
}
