//! The `coordination.k8s.io` group: who holds what, and until when.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod lease;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<lease::Lease>::new())]
}
