//! What both kinds of policies share.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::{FAILURE_POLICIES, match_resources};
use crate::at::At;
use crate::columns::Column;
use crate::shared::name;

/// Words that name nothing in CEL.
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
    let kind = policy.at("spec").at("paramKind");
    Cell::from(if kind.is_set() {
        format!("{}/{}", kind.at("apiVersion").str(), kind.at("kind").str())
    } else {
        "<unset>".to_owned()
    })
})
.about("What kind of object it takes its parameters from.");

/// Fills in what every policy has.
pub(super) fn fill(policy: &mut Tree) {
    let spec = policy.child("spec");
    spec.fill("failurePolicy", "Fail");
    if let Some(resources) = spec.find_mut("matchConstraints") {
        match_resources::fill(resources);
    }
}

/// Reports what is wrong with the part of a policy that says when it is asked.
pub(super) fn validate_match(spec: &At<'_>) {
    spec.at("failurePolicy").require_one_of(FAILURE_POLICIES);
    if spec.at("paramKind").is_set() {
        validate_param_kind(&spec.at("paramKind"));
    }
    let resources = spec.at("matchConstraints");
    if !resources.is_set() {
        resources.required("");
        return;
    }
    match_resources::validate(&resources);
    resources.at("resourceRules").require();
}

/// Reports what is wrong with variables but for the expressions themselves.
pub(super) fn validate_variables(variables: &At<'_>) {
    for variable in variables.items() {
        let own = variable.at("name");
        if own.str().trim().is_empty() {
            own.required("name is not specified");
        } else if !is_identifier(own.str()) {
            own.invalid("must be a valid CEL identifier");
        }
        if variable.at("expression").str().trim().is_empty() {
            variable.at("expression").required("expression is not specified");
        }
    }
}

fn validate_param_kind(param: &At<'_>) {
    let version = param.at("apiVersion");
    if version.require() {
        validate_version(&version);
    }
    let kind = param.at("kind");
    if kind.require() {
        let complaints = name::service(&kind.str().to_lowercase());
        if !complaints.is_empty() {
            kind.invalid(&format!(
                "may have mixed case, but should otherwise match: {}",
                complaints.join(",")
            ));
        }
    }
}

fn validate_version(place: &At<'_>) {
    let text = place.str();
    let (group, version) = match text.matches('/').count() {
        _ if text == "/" => ("", ""),
        0 => ("", text),
        1 => text.split_once('/').expect("there is one slash"),
        _ => return place.invalid(&format!("unexpected GroupVersion string: {text}")),
    };
    let group_complaints = name::subdomain(group);
    if !group.is_empty() && !group_complaints.is_empty() {
        place.invalid_as(group, &group_complaints.join(","));
    }
    if version.is_empty() {
        place.invalid("version must be specified");
        return;
    }
    let complaints = name::service(version);
    if !complaints.is_empty() {
        place.invalid_as(version, &complaints.join(","));
    }
}

fn is_identifier(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().all(word) && !text.as_bytes()[0].is_ascii_digit() && !RESERVED.contains(&text)
}
