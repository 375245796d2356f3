//! Validation and defaults that both policy kinds share.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, name};

use super::{FAILURE_POLICIES, match_resources};

/// CEL's reserved words, which cannot be variable names.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(super) const PARAM_KIND: Column = Column::text("ParamKind", |policy, _| {
    let kind = policy.at(fields::SPEC).at(fields::PARAM_KIND);
    Cell::from(if kind.is_set() {
        format!(
            "{}/{}",
            kind.at(fields::API_VERSION).str(),
            kind.at(fields::KIND).str()
        )
    } else {
        "<unset>".to_owned()
    })
})
.description("The kind of the parameter resource.");

/// Sets the defaults of a policy.
pub(super) fn set_defaults(policy: &mut Tree) {
    let spec = policy.child(fields::SPEC);
    spec.set_default(fields::FAILURE_POLICY, "Fail");
    if let Some(resources) = spec.find_mut(fields::MATCH_CONSTRAINTS) {
        match_resources::set_defaults(resources);
    }
}

/// Validates the fields of a policy that select requests.
pub(super) fn validate_match(spec: &FieldRef<'_>) {
    spec.at(fields::FAILURE_POLICY).require_one_of(FAILURE_POLICIES);
    if spec.at(fields::PARAM_KIND).is_set() {
        validate_param_kind(&spec.at(fields::PARAM_KIND));
    }
    let resources = spec.at(fields::MATCH_CONSTRAINTS);
    if !resources.is_set() {
        resources.required("");
        return;
    }
    match_resources::validate(&resources);
    resources.at(fields::RESOURCE_RULES).require();
}

/// Validates a policy's variables, except for the expressions themselves.
pub(super) fn validate_variables(variables: &FieldRef<'_>) {
    for variable in variables.items() {
        let name = variable.at(fields::NAME);
        if name.str().trim().is_empty() {
            name.required("name is not specified");
        } else if !is_identifier(name.str()) {
            name.invalid("must be a valid CEL identifier");
        }
        if variable.at(fields::EXPRESSION).str().trim().is_empty() {
            variable
                .at(fields::EXPRESSION)
                .required("expression is not specified");
        }
    }
}

fn validate_param_kind(param: &FieldRef<'_>) {
    let version = param.at(fields::API_VERSION);
    if version.require() {
        validate_version(&version);
    }
    let kind = param.at(fields::KIND);
    if kind.require() {
        let violations = name::service(&kind.str().to_lowercase());
        if !violations.is_empty() {
            kind.invalid(&format!(
                "may have mixed case, but should otherwise match: {}",
                violations.join(",")
            ));
        }
    }
}

fn validate_version(field: &FieldRef<'_>) {
    let text = field.str();
    let (group, version) = match text.matches('/').count() {
        _ if text == "/" => ("", ""),
        0 => ("", text),
        1 => text.split_once('/').expect("there is one slash"),
        _ => return field.invalid(&format!("unexpected GroupVersion string: {text}")),
    };
    let group_complaints = name::check_dns1123_subdomain(group);
    if !group.is_empty() && !group_complaints.is_empty() {
        field.invalid_as(group, &group_complaints.join(","));
    }
    if version.is_empty() {
        field.invalid("version must be specified");
        return;
    }
    let violations = name::service(version);
    if !violations.is_empty() {
        field.invalid_as(version, &violations.join(","));
    }
}

fn is_identifier(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(word) && !text.as_bytes()[0].is_ascii_digit() && !RESERVED.contains(&text)
}
