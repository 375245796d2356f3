//! MutatingAdmissionPolicyBinding: puts a mutating policy to work.

use setpoint_schema::Tree;

use super::{CATEGORIES, GROUP, RULES, binding, match_resources};
use crate::at::At;
use crate::columns::Column;
use crate::strategy::{Names, Rules, Scope, Strategy};

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
        binding::fill(binding);
    }

    fn validate(binding: &At<'_>) {
        let spec = binding.at("spec");
        spec.at("policyName").require();
        binding::validate(&spec);
        match_resources::validate_mutable(&spec.at("matchResources"));
    }
}
