//! What both kinds of policy bindings share: which policy, on what, with which parameters.

use setpoint_api::table::Cell;
use setpoint_schema::Tree;

use super::match_resources;
use crate::at::At;
use crate::columns::{self, Column};
use crate::shared::{label_selector, name};

const ACTIONS: &[&str] = &["Deny", "Allow"];

/// The columns of bindings.
pub(super) const COLUMNS: &[Column] = &[
    columns::NAME,
    Column::text("PolicyName", |binding, _| {
        columns::or_empty(&binding.at("spec").at("policyName"))
    })
    .about("The policy that is bound."),
    Column::text("ParamRef", |binding, _| {
        Cell::from(print_param(&binding.at("spec").at("paramRef")))
    })
    .about("Where its parameters come from."),
    columns::AGE,
];

/// Fills in what every binding has.
pub(super) fn fill(binding: &mut Tree) {
    if let Some(resources) = binding.child("spec").find_mut("matchResources") {
        match_resources::fill(resources);
    }
}

/// Reports what is wrong with a binding but for a missing name.
pub(super) fn validate(spec: &At<'_>) {
    if !spec.at("policyName").is_empty() {
        name::check(&spec.at("policyName"), name::subdomain);
    }
    if spec.at("paramRef").is_set() {
        validate_param(&spec.at("paramRef"));
    }
    match_resources::validate(&spec.at("matchResources"));
}

fn validate_param(param: &At<'_>) {
    let (own, selector) = (param.at("name"), param.at("selector"));
    let both = !own.is_empty() && selector.is_set();
    if !own.is_empty() {
        name::check(&own, name::path_segment);
    }
    if both {
        own.forbidden("name and selector are mutually exclusive");
    }
    label_selector::validate(&selector);
    if both {
        selector.forbidden("name and selector are mutually exclusive");
    }
    if own.is_empty() && !selector.is_set() {
        param.required("one of name or selector must be specified");
    }
    param.at("parameterNotFoundAction").require_one_of(ACTIONS);
}

fn print_param(param: &At<'_>) -> String {
    let (own, namespace) = (param.at("name").str(), param.at("namespace").str());
    match (own, namespace) {
        ("", _) if param.at("selector").is_set() => label_selector::print(&param.at("selector")),
        ("", _) => "<unset>".to_owned(),
        (own, "") => format!("*/{own}"),
        (own, namespace) => format!("{namespace}/{own}"),
    }
}
