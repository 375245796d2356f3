//! Resolution of plain scalars, by YAML 1.1.

use setpoint_schema::Tree;

/// The value of an unquoted scalar.
pub(super) fn resolve(text: &str) -> Tree {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Tree::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Tree::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Tree::Bool(false)
        }
        _ if may_be_number(text) => number(text).unwrap_or_else(|| text.into()),
        _ => text.into(),
    }
}

/// Whether a string, written unquoted, would be parsed as another type.
pub(super) fn is_ambiguous(text: &str) -> bool {
    !matches!(resolve(text), Tree::Str(_)) || text == "<<" || looks_like_date(text)
}

fn may_be_number(text: &str) -> bool {
    matches!(text.as_bytes().first(), Some(b'0'..=b'9' | b'+' | b'-' | b'.'))
}

fn number(text: &str) -> Option<Tree> {
    let plain = text.replace('_', "");
    if let Some(number) = integer(&plain) {
        return Some(Tree::Int(number));
    }
    let number = plain
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite() && is_float(&plain))?;
    match number.fract() == 0.0 && number.abs() < 9e15 {
        true => Some(Tree::Int(number as i64)),
        false => Some(Tree::Float(number)),
    }
}

/// Decimal, or by prefix: `0x` hexadecimal, `0b` binary, `0o` or a leading zero octal.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

/// Digits with a decimal point or an exponent; `inf` and the like are not JSON numbers and stay strings.
fn is_float(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// A day, or a day and a time.
fn looks_like_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 8 && bytes[..4].iter().all(u8::is_ascii_digit) && bytes[4] == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: impl Into<Tree>) {
        assert_eq!(resolve(text), expected.into(), "{text}");
    }

    #[test]
    fn words_of_yaml_one_point_one_are_booleans() {
        for text in ["y", "yes", "on", "True", "ON"] {
            check(text, true);
        }
        for text in ["n", "no", "off", "False", "NO"] {
            check(text, false);
        }
        check("yEs", "yEs");
    }

    #[test]
    fn numbers_come_in_several_bases() {
        check("12", 12);
        check("+12", 12);
        check("-0x1F", -31);
        check("0b101", 5);
        check("010", 8);
        check("0o17", 15);
        check("1_000", 1000);
        check("1.5", 1.5);
        check("1e3", 1000);
        check("0", 0);
    }

    #[test]
    fn a_text_that_only_starts_like_a_number_is_a_string() {
        for text in [
            "1.2.3",
            "2026-01-01",
            "100m",
            "1Gi",
            "-",
            ".",
            "+x",
            ".inf",
            "08x",
            "10.0.0.1",
            "0x",
        ] {
            check(text, text);
        }
    }
}
