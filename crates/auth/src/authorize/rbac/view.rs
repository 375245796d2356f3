//! Views of roles and bindings.

use serde::Deserialize;

use super::super::rule::{PolicyRule, nullable_list};

/// A role or a cluster role.
#[derive(Debug, Deserialize)]
pub(super) struct RoleView {
    #[serde(default, deserialize_with = "nullable_list")]
    pub(super) rules: Vec<PolicyRule>,
}

/// A role binding or a cluster role binding.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BindingView {
    pub(super) role_ref: RoleRef,
    #[serde(default, deserialize_with = "nullable_list")]
    pub(super) subjects: Vec<Subject>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct RoleRef {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) name: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Subject {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
}
