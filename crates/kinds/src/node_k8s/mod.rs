//! The `node.k8s.io` group: container runtimes of nodes.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod runtime_class;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<runtime_class::RuntimeClass>::new())]
}
