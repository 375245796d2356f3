//! The `rbac.authorization.k8s.io` group: who may do what.
//!
//! Whether a caller may grant what a role says is asked by admission; here a role is only a document.

use std::sync::Arc;

use crate::builtin::Builtin;
use crate::kind::Kind;
use crate::strategy::{NameRule, Rules};

pub mod cluster_role;
pub mod cluster_role_binding;
pub mod role;
pub mod role_binding;

mod binding;
mod policy_rule;

const GROUP: &str = "rbac.authorization.k8s.io";

/// All kinds of this group may be called anything that fits into a URL, and are created by an update.
const RULES: Rules = Rules {
    name: NameRule::PathSegment,
    create_on_update: true,
    ..Rules::DEFAULT
};

/// The kinds of this group, in the order of discovery.
pub(crate) fn all() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Builtin::<cluster_role_binding::ClusterRoleBinding>::new()),
        Arc::new(Builtin::<cluster_role::ClusterRole>::new()),
        Arc::new(Builtin::<role_binding::RoleBinding>::new()),
        Arc::new(Builtin::<role::Role>::new()),
    ]
}
