//! Counts that are given as a number or as a percentage (`IntOrString`).

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a percentage of a total is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundingMode {
    Up,
    Down,
}

/// The count for a number or a percentage of `total`. An invalid value counts as zero.
pub(crate) fn scaled_value(value: Option<&IntOrString>, total: i32, rounding: RoundingMode) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(count)) => *count,
        Some(IntOrString::String(text)) => percent(text).map_or(0, |percent| share(percent, total, rounding)),
    }
}

fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok()
}

fn share(percent: i64, total: i32, rounding: RoundingMode) -> i32 {
    let hundredfold = percent.saturating_mul(i64::from(total));
    let share = match rounding {
        RoundingMode::Up => hundredfold.saturating_add(99).div_euclid(100),
        RoundingMode::Down => hundredfold.div_euclid(100),
    };
    i32::try_from(share).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, total: i32, up: i32, down: i32) {
        let value = match value.parse() {
            Ok(count) => IntOrString::Int(count),
            Err(_) => IntOrString::String(value.to_owned()),
        };
        let rounded = |rounding| scaled_value(Some(&value), total, rounding);
        assert_eq!(
            (rounded(RoundingMode::Up), rounded(RoundingMode::Down)),
            (up, down)
        );
    }

    #[test]
    fn a_percentage_is_rounded_up_or_down() {
        check("25%", 10, 3, 2);
        check("25%", 4, 1, 1);
        check("25%", 1, 1, 0);
        check("0%", 9, 0, 0);
        check("100%", 7, 7, 7);
        check("50%", 0, 0, 0);
    }

    #[test]
    fn a_number_is_itself_and_an_invalid_value_is_zero() {
        check("3", 10, 3, 3);
        check("many", 10, 0, 0);
    }
}
