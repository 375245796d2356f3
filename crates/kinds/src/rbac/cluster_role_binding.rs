//! ClusterRoleBinding: grants a role in all namespaces.

use setpoint_schema::Tree;
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{GROUP, RULES, binding};

#[derive(Debug)]
pub struct ClusterRoleBinding;

impl Strategy for ClusterRoleBinding {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "ClusterRoleBinding");
    const NAMES: Names = Names::new("clusterrolebindings", "clusterrolebinding");
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = binding::COLUMNS;
    const RULES: Rules = RULES;

    fn default_fields(binding: &mut Tree) {
        binding::set_defaults(binding);
    }

    fn validate(binding: &FieldRef<'_>, _facts: &RequestFacts) {
        binding::validate(binding, &["ClusterRole"], Scope::Cluster);
    }

    fn validate_for_update(binding: &FieldRef<'_>, old: &FieldRef<'_>, _facts: &RequestFacts) {
        binding::validate_update(binding, old, &["ClusterRole"], Scope::Cluster);
    }
}
