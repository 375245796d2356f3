//! Numbers that are given as a count or as a percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Where a percentage that is no whole number goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// The count that a portion of `total` is. What is no number at all counts as none.
pub(crate) fn of(portion: Option<&IntOrString>, total: i32, rounding: Rounding) -> i32 {
    match portion {
        None => 0,
        Some(IntOrString::Int(count)) => *count,
        Some(IntOrString::String(text)) => percent(text).map_or(0, |percent| share(percent, total, rounding)),
    }
}

fn percent(text: &str) -> Option<i64> {
    text.strip_suffix('%')?.parse().ok()
}

fn share(percent: i64, total: i32, rounding: Rounding) -> i32 {
    let hundredfold = percent.saturating_mul(i64::from(total));
    let share = match rounding {
        Rounding::Up => hundredfold.saturating_add(99).div_euclid(100),
        Rounding::Down => hundredfold.div_euclid(100),
    };
    i32::try_from(share).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(portion: &str, total: i32, up: i32, down: i32) {
        let portion = match portion.parse() {
            Ok(count) => IntOrString::Int(count),
            Err(_) => IntOrString::String(portion.to_owned()),
        };
        let rounded = |rounding| of(Some(&portion), total, rounding);
        assert_eq!((rounded(Rounding::Up), rounded(Rounding::Down)), (up, down));
    }

    #[test]
    fn a_percentage_is_rounded_as_told() {
        check("25%", 10, 3, 2);
        check("25%", 4, 1, 1);
        check("25%", 1, 1, 0);
        check("0%", 9, 0, 0);
        check("100%", 7, 7, 7);
        check("50%", 0, 0, 0);
    }

    #[test]
    fn a_count_is_itself_and_nonsense_is_none() {
        check("3", 10, 3, 3);
        check("many", 10, 0, 0);
    }
}
