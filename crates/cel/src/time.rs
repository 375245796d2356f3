//! Texts of timestamps and durations.

use jiff::{SignedDuration, Timestamp};

const NANOS: i128 = 1_000_000_000;

/// Parses an RFC 3339 timestamp, or a date.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() == 10
    {
        return date
            .to_zoned(jiff::tz::TimeZone::UTC)
            .ok()
            .map(|zoned| zoned.timestamp());
    }
    // RFC 3339 requires seconds and an offset.
    let has_seconds = text.len() >= 20 && text.as_bytes()[16] == b':';
    text.parse().ok().filter(|_| has_seconds)
}

/// Parses a duration as Go writes them: `1h2m3.5s`, `-100ms`.
pub(crate) fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (is_negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        nanos = nanos.checked_add(amount(number, unit_nanos(unit)?)?)?;
        rest = tail;
    }
    if text.trim_start_matches(['-', '+']).is_empty() {
        return None;
    }
    let nanos = i64::try_from(if is_negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS,
        "m" => 60 * NANOS,
        "h" => 3600 * NANOS,
        _ => return None,
    })
}

fn amount(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction = &fraction[..fraction.len().min(18)];
    let part: i128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    whole.checked_mul(unit)?.checked_add(part * unit / scale)
}

/// A duration as the language prints it: seconds with a fraction, such as `5400s`.
pub(crate) fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) = (nanos.abs() / NANOS, nanos.abs() % NANOS);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(
            parse_duration(text).map(format_duration).as_deref(),
            expected,
            "{text}"
        );
    }

    #[test]
    fn durations_are_parsed_as_go_writes_them() {
        check("1h2m3s", Some("3723s"));
        check("-1.5s", Some("-1.5s"));
        check("100ms", Some("0.1s"));
        check("0", Some("0s"));
        for bad in ["", "-", "1", "s", "1x", "1h2"] {
            check(bad, None);
        }
    }

    #[test]
    fn timestamps_have_seconds_and_an_offset() {
        assert!(parse_timestamp("2026-01-02T03:04:05Z").is_some());
        assert!(parse_timestamp("2026-01-02T03:04:05.5+01:00").is_some());
        assert!(parse_timestamp("2026-01-02").is_some());
        assert!(parse_timestamp("2026-01-02T03:04Z").is_none());
    }
}
