//! The `scheduling.k8s.io` group: pod priorities.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod priority_class;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(BuiltinKind::<priority_class::PriorityClass>::new())]
}
