//! RoleBinding: grants a role inside one namespace.

use setpoint_schema::Tree;
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{GROUP, RULES, binding};

#[derive(Debug)]
pub struct RoleBinding;

impl Strategy for RoleBinding {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "RoleBinding");
    const NAMES: Names = Names::new("rolebindings", "rolebinding");
    const COLUMNS: &'static [Column] = binding::COLUMNS;
    const RULES: Rules = RULES;

    fn default_fields(binding: &mut Tree) {
        binding::set_defaults(binding);
    }

    fn validate(binding: &FieldRef<'_>, _facts: &RequestFacts) {
        binding::validate(binding, &["Role", "ClusterRole"], Scope::Namespaced);
    }

    fn validate_for_update(binding: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        binding::validate_update(binding, old, &["Role", "ClusterRole"], Scope::Namespaced);
    }
}
