//! MutatingAdmissionPolicyBinding: applies a mutating policy to resources, with parameters.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{CATEGORIES, GROUP, RULES, binding, match_resources};

#[derive(Debug)]
pub struct MutatingAdmissionPolicyBinding;

impl Strategy for MutatingAdmissionPolicyBinding {
    const KIND: (&'static str, &'static str, &'static str) = (GROUP, "v1", "MutatingAdmissionPolicyBinding");
    const NAMES: Names = Names::new(
        "mutatingadmissionpolicybindings",
        "mutatingadmissionpolicybinding",
    )
    .categories(CATEGORIES);
    const SCOPE: Scope = Scope::Cluster;
    const COLUMNS: &'static [Column] = binding::COLUMNS;
    const RULES: Rules = RULES;

    fn default_fields(binding: &mut Tree) {
        binding::set_defaults(binding);
    }

    fn validate(binding: &FieldRef<'_>, _facts: &RequestFacts) {
        let spec = binding.at(fields::SPEC);
        spec.at(fields::POLICY_NAME).require();
        binding::validate(&spec);
        match_resources::validate_mutable(&spec.at(fields::MATCH_RESOURCES));
    }
}
