//! `matchConditions`: CEL conditions that a request must meet before the webhook or policy is called.

use std::collections::HashSet;

use setpoint_schema::fields;
use setpoint_strategy::{FieldRef, name};

const MAX: usize = 64;

/// Validates match conditions, except for the expressions themselves.
pub(super) fn validate(conditions: &FieldRef<'_>) {
    if conditions.len() > MAX {
        conditions.too_many(MAX);
    }
    let mut seen: HashSet<&str> = HashSet::new();
    for condition in conditions.items() {
        if condition.at(fields::EXPRESSION).str().trim().is_empty() {
            condition.at(fields::EXPRESSION).required("");
        }
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
