//! The `rbac.authorization.k8s.io` group: roles and role bindings.
//!
//! Whether a caller may grant the rules of a role (escalation) is checked elsewhere; here a role is only validated as
//! an object.

use std::sync::Arc;

use setpoint_strategy::{BuiltinKind, Kind, NameRule, Rules};

pub mod cluster_role;
pub mod cluster_role_binding;
pub mod role;
pub mod role_binding;

mod binding;
mod policy_rule;

const GROUP: &str = "rbac.authorization.k8s.io";

/// In this group any name that fits into a URL is valid, and an update creates a missing object.
const RULES: Rules = Rules::DEFAULT.name(NameRule::PathSegment).create_on_update();

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(BuiltinKind::<cluster_role_binding::ClusterRoleBinding>::new()),
        Arc::new(BuiltinKind::<cluster_role::ClusterRole>::new()),
        Arc::new(BuiltinKind::<role_binding::RoleBinding>::new()),
        Arc::new(BuiltinKind::<role::Role>::new()),
    ]
}
