//! The `scheduling.k8s.io` group: which pods come first.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod priority_class;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Builtin::<priority_class::PriorityClass>::new())]
}
