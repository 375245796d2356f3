//! `rules`: the operations on resources, groups and versions that a webhook or policy matches.

use std::collections::HashSet;

use setpoint_schema::{Tree, fields};
use setpoint_strategy::{FieldRef, name};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

/// Defaults the scope of a rule.
pub(super) fn set_defaults(rule: &mut Tree) {
    rule.set_default(fields::SCOPE, "*");
}

/// Validates a rule that may also list `resourceNames`.
pub(super) fn validate_named(rule: &FieldRef<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for object_name in rule.at(fields::RESOURCE_NAMES).items() {
        name::check(&object_name, name::path_segment);
        if !seen.insert(object_name.str()) {
            object_name.duplicate();
        }
    }
    validate(rule);
}

/// Validates a rule.
pub(super) fn validate(rule: &FieldRef<'_>) {
    let operations = rule.at(fields::OPERATIONS);
    operations.require();
    validate_star(&operations, "operations");
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.str()) {
            operation.not_supported(OPERATIONS);
        }
    }
    for (field, what) in [
        (fields::API_GROUPS, "API groups"),
        (fields::API_VERSIONS, "API versions"),
    ] {
        rule.at(field).require();
        validate_star(&rule.at(field), what);
    }
    for version in rule.at(fields::API_VERSIONS).items() {
        version.require();
    }
    validate_resources(&rule.at(fields::RESOURCES));
    rule.at(fields::SCOPE).one_of(SCOPES);
}

fn validate_star(list: &FieldRef<'_>, what: &str) {
    if list.len() > 1 && list.strs().any(|item| item == "*") {
        list.invalid(&format!("if '*' is present, must not specify other {what}"));
    }
}

/// Reports resources that a wildcard in the same list already covers.
fn validate_resources(resources: &FieldRef<'_>) {
    resources.require();
    // Resources with `resource/*`, and subresources with `*/subresource`.
    let (mut whole, mut everywhere) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for resource in resources.items() {
        let text = resource.str();
        if !resource.require() {
            continue;
        }
        let Some((parent, sub)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if whole.contains(parent) {
            resource.invalid(&format!("if '{parent}/*' is present, must not specify {text}"));
        }
        if everywhere.contains(sub) {
            resource.invalid(&format!("if '*/{sub}' is present, must not specify {text}"));
        }
        if sub == "*" {
            whole.insert(parent);
        }
        if parent == "*" {
            everywhere.insert(sub);
        }
    }
    let has = |text: &str| resources.strs().any(|resource| resource == text);
    if resources.len() > 1 && has("*/*") {
        resources.invalid("if '*/*' is present, must not specify other resources");
    }
    if has("*") && plain {
        resources.invalid("if '*' is present, must not specify other resources without subresources");
    }
}
