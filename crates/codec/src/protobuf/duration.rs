//! Durations: whole nanoseconds on the wire, Go's form `1h2m3.5s` in JSON.

use std::fmt::Write;

use compact_str::CompactString;

const SECOND: u64 = 1_000_000_000;
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
];

/// The text of a duration, as Go's `Duration.String`: hours and minutes if any, and a smaller unit below one second.
pub(super) fn to_text(nanos: i64) -> CompactString {
    let mut text = CompactString::default();
    if nanos < 0 {
        text.push('-');
    }
    let size = nanos.unsigned_abs();
    match size {
        0 => text.push_str("0s"),
        1..1_000 => fraction(size, 1, "ns", &mut text),
        1_000..1_000_000 => fraction(size, 1_000, "\u{b5}s", &mut text),
        1_000_000..SECOND => fraction(size, 1_000_000, "ms", &mut text),
        _ => clock(size, &mut text),
    }
    text
}

fn clock(size: u64, text: &mut CompactString) {
    let minutes = size / (60 * SECOND);
    let written = match minutes {
        0 => Ok(()),
        1..60 => write!(text, "{minutes}m"),
        _ => write!(text, "{}h{}m", minutes / 60, minutes % 60),
    };
    written.expect("a string takes any text");
    fraction(size % (60 * SECOND), SECOND, "s", text);
}

/// A number of units with as many decimals as it needs.
fn fraction(size: u64, unit: u64, name: &str, text: &mut CompactString) {
    let width = unit.ilog10() as usize;
    let decimals = format!("{:0width$}", size % unit);
    let decimals = if width > 0 {
        decimals.trim_end_matches('0')
    } else {
        ""
    };
    let point = if decimals.is_empty() { "" } else { "." };
    write!(text, "{}{point}{decimals}{name}", size / unit).expect("a string takes any text");
}

/// Parses a duration to nanoseconds; `None` if the text is not one.
pub(super) fn from_text(text: &str) -> Option<i64> {
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let mut total: i128 = 0;
    let mut rest = if unsigned == "0" { "0s" } else { unsigned };
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// The first number with its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Option<(i128, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let length = rest
        .find(|c: char| c.is_ascii_digit() || c == '.')
        .unwrap_or(rest.len());
    let (name, rest) = rest.split_at(length);
    let (_, unit) = UNITS.iter().find(|(known, _)| *known == name)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && decimals.is_empty()) || decimals.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let unit = i128::from(*unit);
    Some((i128::from(whole) * unit + decimal_part(decimals, unit), rest))
}

/// The value of the decimals, truncated to nanoseconds.
fn decimal_part(decimals: &str, unit: i128) -> i128 {
    let mut worth = 0;
    let mut scale: i128 = 1;
    for digit in decimals.bytes().take(18) {
        worth = worth * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    worth * unit / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(nanos: i64, text: &str) {
        assert_eq!(to_text(nanos), text);
        assert_eq!(from_text(text), Some(nanos), "{text}");
    }

    #[test]
    fn a_duration_and_its_text_are_the_same() {
        check(0, "0s");
        check(1, "1ns");
        check(1_100, "1.1\u{b5}s");
        check(2_200_000, "2.2ms");
        check(1_000_000_000, "1s");
        check(3_300_000_000, "3.3s");
        check(60_000_000_000, "1m0s");
        check(245_000_000_001, "4m5.000000001s");
        check(3_723_000_000_000, "1h2m3s");
        check(-5_000_000, "-5ms");
        check(i64::MAX, "2562047h47m16.854775807s");
        check(i64::MIN, "-2562047h47m16.854775808s");
    }

    #[test]
    fn other_spellings_are_read_too() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1.5h", Some(5_400_000_000_000)),
            (".5s", Some(500_000_000)),
            ("+1us", Some(1_000)),
            ("1m1m", Some(120_000_000_000)),
            ("", None),
            ("-", None),
            ("1", None),
            (".s", None),
            ("1.1.1s", None),
            ("1d", None),
            ("9999999999999h", None),
        ] {
            assert_eq!(from_text(text), nanos, "{text}");
        }
    }
}
