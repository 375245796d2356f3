//! `matchConstraints` and `matchResources`: which objects a policy applies to.

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, label_selector};

use super::{MATCH_POLICIES, rule};

/// Operations that a mutating policy may match; a deleted object cannot be mutated.
const MUTABLE: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// Sets the defaults of a match.
pub(super) fn set_defaults(resources: &mut Tree) {
    resources.set_default(fields::MATCH_POLICY, "Equivalent");
    resources.child(fields::NAMESPACE_SELECTOR);
    resources.child(fields::OBJECT_SELECTOR);
    for rules in [fields::RESOURCE_RULES, fields::EXCLUDE_RESOURCE_RULES] {
        resources.items_mut(rules).for_each(rule::set_defaults);
    }
}

/// Validates a match.
pub(super) fn validate(resources: &FieldRef<'_>) {
    if !resources.is_set() {
        return;
    }
    resources.at(fields::MATCH_POLICY).require_one_of(MATCH_POLICIES);
    label_selector::validate(&resources.at(fields::NAMESPACE_SELECTOR));
    label_selector::validate(&resources.at(fields::OBJECT_SELECTOR));
    for rules in [fields::RESOURCE_RULES, fields::EXCLUDE_RESOURCE_RULES] {
        for rule in resources.at(rules).items() {
            rule::validate_named(&rule);
        }
    }
}

/// Reports operations that a mutating policy may not match.
pub(super) fn validate_mutable(resources: &FieldRef<'_>) {
    let rules = resources.at(fields::RESOURCE_RULES);
    let field = rules.errors().at(fields::OPERATIONS);
    for rule in rules.items() {
        for operation in rule.at(fields::OPERATIONS).strs() {
            if !MUTABLE.contains(&operation) {
                field.not_supported(operation, MUTABLE);
            }
        }
    }
}
