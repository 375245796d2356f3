//! `matchConditions`: CEL conditions that a request must meet before the webhook or policy is called.

use std::collections::HashSet;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

use super::expressions::{Compiler, OptionalVariables, ResultType};

const MAX: usize = 64;

/// Validates match conditions. Those of a policy with parameters may use `params`.
pub(super) fn validate(conditions: &FieldRef<'_>, has_params: bool) {
    if conditions.len() > MAX {
        conditions.too_many(MAX);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for condition in conditions.items() {
        validate_expression(&condition.at(fields::EXPRESSION), has_params);
        let name = condition.at(fields::NAME);
        if !name.require() {
            continue;
        }
        name::check(&name, name::check_qualified_name);
        if !seen.insert(name.str()) {
            name.duplicate();
        }
    }
}

fn validate_expression(expression: &FieldRef<'_>, params: bool) {
    let source = expression.str().trim();
    if source.is_empty() {
        return expression.required("");
    }
    let optional = OptionalVariables {
        params,
        authorizer: true,
    };
    Compiler::default().validate(expression, source, optional, ResultType::Bool);
}
