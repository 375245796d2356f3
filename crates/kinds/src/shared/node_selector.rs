//! Node selectors in objects, and deprecated node labels.

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

/// Deprecated node labels, and their warnings.
const DEPRECATED: &[(&str, &str)] = &[
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

/// The warning about a deprecated node label.
pub fn deprecated(label: &str) -> Option<&'static str> {
    let found = DEPRECATED.iter().find(|(old, _)| *old == label);
    found.map(|(_, advice)| *advice)
}

/// Validates a node selector. `bad_values` accepts invalid label values.
pub fn validate(selector: &FieldRef<'_>, bad_values: bool) {
    let terms = selector.at(fields::NODE_SELECTOR_TERMS);
    if terms.is_empty() {
        terms.required("must have at least one node selector term");
    }
    for term in terms.items() {
        validate_term(&term, bad_values);
    }
}

/// Validates one term of a node selector.
pub fn validate_term(term: &FieldRef<'_>, bad_values: bool) {
    for expression in term.at(fields::MATCH_EXPRESSIONS).items() {
        validate_expression(&expression, bad_values);
    }
    for field in term.at(fields::MATCH_FIELDS).items() {
        validate_field(&field);
    }
}

/// Whether a node selector has invalid label values.
pub fn has_bad_values(selector: &FieldRef<'_>) -> bool {
    let terms = selector.at(fields::NODE_SELECTOR_TERMS);
    terms.items().any(|term| {
        let expressions = term.at(fields::MATCH_EXPRESSIONS);
        expressions.items().any(|expression| {
            let mut values = expression.at(fields::VALUES).strs();
            values.any(|value| !name::check_label_value(value).is_empty())
        })
    })
}

/// Warnings about deprecated labels in the terms of a node selector.
pub fn warnings(selector: &FieldRef<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for term in selector.at(fields::NODE_SELECTOR_TERMS).items() {
        for expression in term.at(fields::MATCH_EXPRESSIONS).items() {
            let key = expression.at(fields::KEY);
            if let Some(advice) = deprecated(key.str()) {
                warnings.push(format!("{}: {} is {advice}", key.errors().path(), key.str()));
            }
        }
    }
    warnings
}

fn validate_expression(expression: &FieldRef<'_>, bad_values: bool) {
    let values = expression.at(fields::VALUES);
    match (expression.at(fields::OPERATOR).str(), values.len()) {
        ("In" | "NotIn", 0) => values.required("must be specified when `operator` is 'In' or 'NotIn'"),
        ("Exists" | "DoesNotExist", 1..) => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        ("Gt" | "Lt", 0 | 2..) => {
            values.required("must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        _ => expression
            .at(fields::OPERATOR)
            .invalid("not a valid selector operator"),
    }
    name::check(&expression.at(fields::KEY), name::check_qualified_name);
    if !bad_values {
        values
            .items()
            .for_each(|value| name::check(&value, name::check_label_value));
    }
}

/// The only node field that can be selected by is its name.
fn validate_field(field: &FieldRef<'_>) {
    let (key, values) = (field.at(fields::KEY), field.at(fields::VALUES));
    match field.at(fields::OPERATOR).str() {
        "In" | "NotIn" if values.len() != 1 => values
            .required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector"),
        "In" | "NotIn" => {}
        _ => field
            .at(fields::OPERATOR)
            .invalid("not a valid selector operator"),
    }
    if key.str() != "metadata.name" {
        key.invalid("not a valid field selector key");
        return;
    }
    values
        .items()
        .for_each(|value| name::check(&value, name::check_dns1123_subdomain));
}
