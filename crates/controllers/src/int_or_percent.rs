//! Counts that are given as a number or as a percentage (`IntOrString`).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_values::int_or_percent::{RoundingMode, percent, share};

/// The count for a number or a percentage of `total`. An invalid value counts as zero.
pub(crate) fn scaled_value(value: Option<&IntOrString>, total: i32, rounding: RoundingMode) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(count)) => *count,
        Some(IntOrString::String(text)) => percent(text).map_or(0, |percent| share(percent, total, rounding)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: IntOrString, expected: i32) {
        assert_eq!(scaled_value(Some(&value), 10, RoundingMode::Up), expected);
    }

    #[test]
    fn a_number_is_itself_and_an_invalid_value_is_zero() {
        check(IntOrString::Int(3), 3);
        check(IntOrString::String("25%".to_owned()), 3);
        check(IntOrString::String("many".to_owned()), 0);
    }
}
