//! Conditions in CEL that a request must meet before anything else is asked.

use crate::at::At;
use crate::shared::name;

const MOST: usize = 64;

/// Reports what is wrong with conditions but for the expressions themselves.
pub(super) fn validate(conditions: &At<'_>) {
    if conditions.len() > MOST {
        conditions.too_many(MOST);
    }
    let mut seen: Vec<&str> = Vec::new();
    for condition in conditions.items() {
        if condition.at("expression").str().trim().is_empty() {
            condition.at("expression").required("");
        }
        let own = condition.at("name");
        if !own.require() {
            continue;
        }
        name::check(&own, name::qualified);
        if seen.contains(&own.str()) {
            own.duplicate();
        }
        seen.push(own.str());
    }
}
