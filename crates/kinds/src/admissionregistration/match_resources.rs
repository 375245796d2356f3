//! Which objects a policy is about.

use setpoint_schema::Tree;

use super::{MATCH_POLICIES, rule};
use crate::at::At;
use crate::shared::label_selector;

/// Policies that change an object cannot do so once it is gone.
const MUTABLE: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];

/// Fills in what a match has.
pub(super) fn fill(resources: &mut Tree) {
    resources.fill("matchPolicy", "Equivalent");
    resources.child("namespaceSelector");
    resources.child("objectSelector");
    for rules in ["resourceRules", "excludeResourceRules"] {
        resources.items_mut(rules).for_each(rule::fill);
    }
}

/// Reports what is wrong with a match.
pub(super) fn validate(resources: &At<'_>) {
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

/// Reports operations after which there is nothing to change.
pub(super) fn validate_mutable(resources: &At<'_>) {
    let rules = resources.at("resourceRules");
    let place = rules.errors().at("operations");
    for rule in rules.items() {
        for operation in rule.at("operations").strs() {
            if !MUTABLE.contains(&operation) {
                place.not_supported(operation, MUTABLE);
            }
        }
    }
}
