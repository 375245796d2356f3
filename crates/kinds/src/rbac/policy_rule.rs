//! One rule of a role: verbs on resources, or on non-resource URLs.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, Scope};

/// Validates the rules of a role.
pub(super) fn validate(rules: &FieldRef<'_>, scope: Scope) {
    for rule in rules.items() {
        validate_one(&rule, scope);
    }
}

/// Reports what upstream's declarative validation reports, which runs last.
pub(super) fn validate_declarative(rules: &FieldRef<'_>) {
    for rule in rules.items() {
        rule.at(fields::VERBS).require();
    }
}

fn validate_one(rule: &FieldRef<'_>, scope: Scope) {
    let urls = rule.at(fields::NON_RESOURCE_URLS);
    if urls.is_empty() {
        for (field, what) in [(fields::API_GROUPS, "api group"), (fields::RESOURCES, "resource")] {
            if rule.at(field).is_empty() {
                let detail = format!("resource rules must supply at least one {what}");
                rule.at(field).required(&detail);
            }
        }
        return;
    }
    if scope == Scope::Namespaced {
        urls.invalid("namespaced rules cannot apply to non-resource URLs");
    }
    let resources = [fields::API_GROUPS, fields::RESOURCES, fields::RESOURCE_NAMES];
    if resources.iter().any(|field| !rule.at(field).is_empty()) {
        urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
    }
}
