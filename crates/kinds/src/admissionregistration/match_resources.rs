//! `matchConstraints` and `matchResources`: which objects a policy applies to.

use setpoint_schema::Tree;

use super::{MATCH_POLICIES, rule};
use crate::field::FieldRef;
use crate::shared::label_selector;

/// Operations that a mutating policy may match; a deleted object cannot be mutated.
const MUTABLE: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// Sets the defaults of a match.
pub(super) fn set_defaults(resources: &mut Tree) {
    resources.set_default("matchPolicy", "Equivalent");
    resources.child("namespaceSelector");
    resources.child("objectSelector");
    for rules in ["resourceRules", "excludeResourceRules"] {
        resources.items_mut(rules).for_each(rule::set_defaults);
    }
}

/// Validates a match.
pub(super) fn validate(resources: &FieldRef<'_>) {
    if !resources.is_set() {
        return;
    }
    resources.at("matchPolicy").require_one_of(MATCH_POLICIES);
    label_selector::validate(&resources.at("namespaceSelector"));
    label_selector::validate(&resources.at("objectSelector"));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in resources.at(rules).items() {
            rule::validate_named(&rule);
        }
    }
}

/// Reports operations that a mutating policy may not match.
pub(super) fn validate_mutable(resources: &FieldRef<'_>) {
    let rules = resources.at("resourceRules");
    let field = rules.errors().at("operations");
    for rule in rules.items() {
        for operation in rule.at("operations").strs() {
            if !MUTABLE.contains(&operation) {
                field.not_supported(operation, MUTABLE);
            }
        }
    }
}
