//! The `flowcontrol.apiserver.k8s.io` group: which requests share the server with which, and how much of it.

use std::sync::Arc;

use crate::at::At;
use crate::builtin::Builtin;
use crate::kind::Kind;

pub mod flow_schema;
pub mod priority_level;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<flow_schema::FlowSchema>::new()),
        Arc::new(Builtin::<priority_level::PriorityLevelConfiguration>::new()),
    ]
}

/// Reports conditions without a type, and types that come twice.
fn validate_conditions(conditions: &At<'_>) {
    let mut seen = Vec::new();
    for condition in conditions.items() {
        let kind = condition.at("type");
        if seen.contains(&kind.str()) {
            kind.duplicate();
        }
        seen.push(kind.str());
        kind.require();
    }
}
