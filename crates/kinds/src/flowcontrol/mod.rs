//! The `flowcontrol.apiserver.k8s.io` group: API priority and fairness.

use std::collections::HashSet;
use std::sync::Arc;

use setpoint_schema::fields;
use setpoint_strategy::{BuiltinKind, FieldRef, Kind};

pub mod flow_schema;
pub mod priority_level;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<flow_schema::FlowSchema>::new()),
        Arc::new(BuiltinKind::<priority_level::PriorityLevelConfiguration>::new()),
    ]
}

/// Reports conditions without a type, and duplicate types.
fn validate_conditions(conditions: &FieldRef<'_>) {
    let mut seen = HashSet::new();
    for condition in conditions.items() {
        let kind = condition.at(fields::TYPE);
        if !seen.insert(kind.str()) {
            kind.duplicate();
        }
        kind.require();
    }
}
