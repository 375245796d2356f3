//! The `discovery.k8s.io` group: endpoints of services.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod endpoint_slice;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<endpoint_slice::EndpointSlice>::new())]
}
