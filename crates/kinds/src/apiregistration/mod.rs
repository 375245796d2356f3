//! The `apiregistration.k8s.io` group: who serves which group and version.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod api_service;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<api_service::APIService>::new())]
}
