//! ValidatingAdmissionPolicyBinding: applies a validating policy to resources, with parameters.

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, Names, RequestFacts, Rules, Scope, Strategy};

use super::{CATEGORIES, GROUP, RULES, binding};

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];

#[derive(Debug)]
pub struct ValidatingAdmissionPolicyBinding;

impl Strategy for ValidatingAdmissionPolicyBinding {
    const KIND: (&'static str, &'static str, &'static str) =
        (GROUP, "v1", "ValidatingAdmissionPolicyBinding");
    const NAMES: Names = Names::new(
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
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
        binding::validate(&spec);
        validate_actions(&spec.at(fields::VALIDATION_ACTIONS));
        // Declarative validation (required fields of the schema) runs after all other rules.
        spec.at(fields::POLICY_NAME).require();
        spec.at(fields::VALIDATION_ACTIONS).require();
    }
}

fn validate_actions(actions: &FieldRef<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for action in actions.items() {
        if !ACTIONS.contains(&action.str()) {
            action.not_supported(ACTIONS);
        }
        if !seen.insert(action.str()) {
            action.duplicate();
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        actions.invalid("must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
}
