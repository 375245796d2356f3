//! The `policy` group: what may be done to pods that others rely on.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod pod_disruption_budget;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(
        Builtin::<pod_disruption_budget::PodDisruptionBudget>::new(),
    )]
}
