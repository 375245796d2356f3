//! The `policy` group: disruption budgets and evictions.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind};

pub mod pod_disruption_budget;

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(
        BuiltinKind::<pod_disruption_budget::PodDisruptionBudget>::new(),
    )]
}
