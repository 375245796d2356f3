//! The `events.k8s.io` group: events under newer field names. They are stored as core/v1 events.

use std::sync::Arc;

use setpoint_strategy::ConvertedKind;
use setpoint_strategy::Kind;

pub mod event;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(ConvertedKind::<event::Event>::new())]
}
