//! The `discovery.k8s.io` group: where services are answered.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod endpoint_slice;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<endpoint_slice::EndpointSlice>::new())]
}
