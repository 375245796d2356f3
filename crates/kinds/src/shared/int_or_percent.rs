//! IntOrString amounts: `3` or `25%`.

use setpoint_schema::Tree;
use setpoint_strategy::FieldRef;
use setpoint_values::int_or_percent::percent;

const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

/// Reports an amount that is neither a non-negative number nor a percentage.
pub fn validate(amount: &FieldRef<'_>) {
    match amount.value() {
        Tree::Str(text) if percent(text).is_none() => amount.invalid(PERCENT),
        Tree::Str(_) => {}
        _ => amount.not_negative(),
    }
}

/// Reports a percentage above 100%.
pub fn validate_most(amount: &FieldRef<'_>) {
    if amount.str().ends_with('%') && percent(amount.str()).is_some_and(|share| share > 100) {
        amount.invalid("must not be greater than 100%");
    }
}

/// The number, or the number before the percent sign; zero if absent.
pub fn number(amount: &FieldRef<'_>) -> i64 {
    match amount.value() {
        Tree::Str(text) => percent(text).or_else(|| text.parse().ok()).unwrap_or_default(),
        _ => amount.int(),
    }
}

/// The amount as text.
pub fn print(amount: &FieldRef<'_>) -> String {
    match amount.value() {
        Tree::Str(text) => text.to_string(),
        _ => amount.int().to_string(),
    }
}
