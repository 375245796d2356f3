//! The `node.k8s.io` group: how nodes run pods.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod runtime_class;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<runtime_class::RuntimeClass>::new())]
}
