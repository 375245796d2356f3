//! The `apiregistration.k8s.io` group: which server serves which group and version.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod api_service;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<api_service::APIService>::new())]
}
