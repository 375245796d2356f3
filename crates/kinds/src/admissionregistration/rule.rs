//! Which requests are meant: operations on resources of groups and versions.

use setpoint_schema::Tree;

use crate::at::At;
use crate::shared::name;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

/// Fills in the scope of a rule.
pub(super) fn fill(rule: &mut Tree) {
    rule.fill("scope", "*");
}

/// Reports what is wrong with a rule that may also name objects.
pub(super) fn validate_named(rule: &At<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    for own in rule.at("resourceNames").items() {
        name::check(&own, name::path_segment);
        if seen.contains(&own.str()) {
            own.duplicate();
        }
        seen.push(own.str());
    }
    validate(rule);
}

/// Reports what is wrong with a rule.
pub(super) fn validate(rule: &At<'_>) {
    let operations = rule.at("operations");
    operations.require();
    validate_star(&operations, "operations");
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.str()) {
            operation.not_supported(OPERATIONS);
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        rule.at(field).require();
        validate_star(&rule.at(field), what);
    }
    for version in rule.at("apiVersions").items() {
        version.require();
    }
    validate_resources(&rule.at("resources"));
    rule.at("scope").one_of(SCOPES);
}

fn validate_star(list: &At<'_>, what: &str) {
    if list.len() > 1 && list.strs().any(|item| item == "*") {
        list.invalid(&format!("if '*' is present, must not specify other {what}"));
    }
}

/// Reports resources that others in the list cover already.
fn validate_resources(resources: &At<'_>) {
    resources.require();
    // The resources whose subresources are all there, and the subresources that are there of all resources.
    let (mut whole, mut everywhere) = (Vec::new(), Vec::new());
    let mut plain = false;
    for resource in resources.items() {
        let text = resource.str();
        if !resource.require() {
            continue;
        }
        let Some((own, sub)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if whole.contains(&own) {
            resource.invalid(&format!("if '{own}/*' is present, must not specify {text}"));
        }
        if everywhere.contains(&sub) {
            resource.invalid(&format!("if '*/{sub}' is present, must not specify {text}"));
        }
        if sub == "*" {
            whole.push(own);
        }
        if own == "*" {
            everywhere.push(sub);
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
