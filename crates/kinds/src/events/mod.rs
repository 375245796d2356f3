//! The `events.k8s.io` group: events under the names they got later. They are stored as core events.

use std::sync::Arc;

use crate::kind::Kind;
use crate::spoke::Spoke;

pub mod event;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Spoke::<event::Event>::new())]
}
