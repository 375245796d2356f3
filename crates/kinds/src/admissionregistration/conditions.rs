//! `matchConditions`: CEL conditions that a request must meet before the webhook or policy is called.

use crate::field::FieldRef;
use crate::shared::name;

const MAX: usize = 64;

/// Validates match conditions, except for the expressions themselves.
pub(super) fn validate(conditions: &FieldRef<'_>) {
    if conditions.len() > MAX {
        conditions.too_many(MAX);
    }
    let mut seen: Vec<&str> = Vec::new();
    for condition in conditions.items() {
        if condition.at("expression").str().trim().is_empty() {
            condition.at("expression").required("");
        }
        let name = condition.at("name");
        if !name.require() {
            continue;
        }
        name::check(&name, name::check_qualified_name);
        if seen.contains(&name.str()) {
            name.duplicate();
        }
        seen.push(name.str());
    }
}
