//! Validation and defaults that both policy kinds share.

use setpoint_api::table::Cell;
use setpoint_schema::{Tree, fields};
use setpoint_strategy::columns::Column;
use setpoint_strategy::{FieldRef, name};

use super::expressions::{Compiler, OptionalVariables};
use super::{FAILURE_POLICIES, conditions, match_resources};

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

/// Validates the match conditions of a policy. An update that changes neither them nor the kind of the parameters keeps
/// them, valid or not.
pub(super) fn validate_conditions(spec: &FieldRef<'_>, old: Option<&FieldRef<'_>>) {
    let is_same = |old: &FieldRef<'_>, field| spec.at(field).is_same(&old.at(fields::SPEC).at(field));
    let is_kept =
        old.is_some_and(|old| is_same(old, fields::PARAM_KIND) && is_same(old, fields::MATCH_CONDITIONS));
    if !is_kept {
        conditions::validate(
            &spec.at(fields::MATCH_CONDITIONS),
            spec.at(fields::PARAM_KIND).is_set(),
        );
    }
}

/// The variables of all expressions of a policy, except those of its messages.
pub(super) fn optional_variables(spec: &FieldRef<'_>) -> OptionalVariables {
    OptionalVariables {
        params: spec.at(fields::PARAM_KIND).is_set(),
        authorizer: true,
    }
}

/// Validates a policy's variables, and declares them for the expressions that follow.
pub(super) fn validate_variables(spec: &FieldRef<'_>, compiler: &mut Compiler) {
    let optional = optional_variables(spec);
    for variable in spec.at(fields::VARIABLES).items() {
        let name = variable.at(fields::NAME);
        if name.str().trim().is_empty() {
            name.required("name is not specified");
        } else if !setpoint_cel::is_identifier(name.str()) {
            name.invalid("must be a valid CEL identifier");
        }
        let expression = variable.at(fields::EXPRESSION);
        if expression.str().trim().is_empty() {
            expression.required("expression is not specified");
        } else if let Err(error) = compiler.add_variable(name.str(), expression.str(), optional) {
            error.report(&expression, expression.str());
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
