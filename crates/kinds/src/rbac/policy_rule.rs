//! One rule of a role: verbs on resources, or on paths that are none.

use crate::at::At;
use crate::strategy::Scope;

/// Reports what is wrong with the rules of a role.
pub(super) fn validate(rules: &At<'_>, scope: Scope) {
    for rule in rules.items() {
        validate_one(&rule, scope);
    }
}

/// Reports what the declared rules of the shape find, which come after all others.
pub(super) fn declared(rules: &At<'_>) {
    for rule in rules.items() {
        rule.at("verbs").require();
    }
}

fn validate_one(rule: &At<'_>, scope: Scope) {
    let urls = rule.at("nonResourceURLs");
    if urls.is_empty() {
        for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
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
    let resources = ["apiGroups", "resources", "resourceNames"];
    if resources.iter().any(|field| !rule.at(field).is_empty()) {
        urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
    }
}
