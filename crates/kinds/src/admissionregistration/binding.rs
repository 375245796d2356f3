//! What both kinds of policy bindings share: which policy, on what, with which parameters.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::{self, Column};
use setpoint_strategy::{FieldRef, label_selector, name};

use super::match_resources;

const ACTIONS: &[&str] = &["Deny", "Allow"];

/// Printer columns of both policy binding kinds.
pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("PolicyName", |binding, _| {
        columns::or_empty(&binding.at(fields::SPEC).at(fields::POLICY_NAME))
    })
    .description("The name of the policy."),
    Column::text("ParamRef", |binding, _| {
        Cell::from(print_param(&binding.at(fields::SPEC).at(fields::PARAM_REF)))
    })
    .description("The parameter resource of the binding."),
    columns::AGE,
];

/// Sets the defaults of a policy binding.
pub(super) fn set_defaults(binding: &mut Tree) {
    if let Some(resources) = binding.child(fields::SPEC).find_mut(fields::MATCH_RESOURCES) {
        match_resources::set_defaults(resources);
    }
}

/// Validates a policy binding's spec, except that `policyName` is required: that is checked by each kind.
pub(super) fn validate(spec: &FieldRef<'_>) {
    if !spec.at(fields::POLICY_NAME).is_empty() {
        name::check(&spec.at(fields::POLICY_NAME), name::check_dns1123_subdomain);
    }
    if spec.at(fields::PARAM_REF).is_set() {
        validate_param(&spec.at(fields::PARAM_REF));
    }
    match_resources::validate(&spec.at(fields::MATCH_RESOURCES));
}

fn validate_param(param: &FieldRef<'_>) {
    let (name, selector) = (param.at(fields::NAME), param.at(fields::SELECTOR));
    let both = !name.is_empty() && selector.is_set();
    if !name.is_empty() {
        name::check(&name, name::path_segment);
    }
    if both {
        name.forbidden("name and selector are mutually exclusive");
    }
    label_selector::validate(&selector);
    if both {
        selector.forbidden("name and selector are mutually exclusive");
    }
    if name.is_empty() && !selector.is_set() {
        param.required("one of name or selector must be specified");
    }
    param
        .at(fields::PARAMETER_NOT_FOUND_ACTION)
        .require_one_of(ACTIONS);
}

fn print_param(param: &FieldRef<'_>) -> String {
    let (name, namespace) = (param.at(fields::NAME).str(), param.at(fields::NAMESPACE).str());
    match (name, namespace) {
        ("", _) if param.at(fields::SELECTOR).is_set() => label_selector::print(&param.at(fields::SELECTOR)),
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}
