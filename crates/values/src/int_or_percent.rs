//! Percentages of counts, as fields with a number or a percentage have them: `25%`.

/// How a percentage of a total is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundingMode {
    /// To the next greater number.
    Up,
    /// To the next smaller number.
    Down,
}

/// The number before the percent sign; `None` if the text is not digits and a percent sign.
pub fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// The percentage of a total.
pub fn share(percent: i64, total: i32, rounding: RoundingMode) -> i32 {
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

    #[test]
    fn a_percentage_is_digits_and_a_sign() {
        assert_eq!(percent("25%"), Some(25));
        assert_eq!(percent("101%"), Some(101));
        assert_eq!(percent("-5%"), None);
        assert_eq!(percent("%"), None);
        assert_eq!(percent("25"), None);
        assert_eq!(percent("99999999999999999999%"), Some(i64::MAX));
    }

    #[track_caller]
    fn check(percent: i64, total: i32, up: i32, down: i32) {
        let rounded = |rounding| share(percent, total, rounding);
        assert_eq!(
            (rounded(RoundingMode::Up), rounded(RoundingMode::Down)),
            (up, down)
        );
    }

    #[test]
    fn a_percentage_is_rounded_up_or_down() {
        check(25, 10, 3, 2);
        check(25, 4, 1, 1);
        check(25, 1, 1, 0);
        check(0, 9, 0, 0);
        check(100, 7, 7, 7);
        check(50, 0, 0, 0);
        check(i64::MAX, 2, i32::MAX, i32::MAX);
    }
}
