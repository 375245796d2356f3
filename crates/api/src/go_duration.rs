//! Durations as Go's `time.ParseDuration` reads them: flags, query parameters and configuration files have them.

use std::time::Duration;

/// Parses `1m30s`, `250ms`, `1.5h`: a sum of numbers with units. Errors have the text of Go's `time.ParseDuration`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}");
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let (number, rest_of_input) = split(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let (unit, rest_of_input) = split(rest_of_input, |c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
            "ns" => 1e-9,
            "" => return Err(format!("missing unit in duration {text:?}")),
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        };
        let term = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(term).ok_or_else(invalid)?;
        rest = rest_of_input;
    }
    Ok(total)
}

/// Splits before the first character for which `ends` holds.
fn split(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<u64, &str>) {
        let read = parse(text).map(|duration| u64::try_from(duration.as_millis()).unwrap());
        assert_eq!(read, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn a_duration_is_a_sum_of_numbers_with_units() {
        check("30s", Ok(30_000));
        check("1m1.5s", Ok(61_500));
        check("250ms", Ok(250));
        check("0", Ok(0));
    }

    #[test]
    fn errors_have_gos_text() {
        check("100", Err("missing unit in duration \"100\""));
        check("x", Err("invalid duration \"x\""));
        check("1x", Err("unknown unit \"x\" in duration \"1x\""));
        check("-1s", Err("invalid duration \"-1s\""));
        check("+", Err("invalid duration \"+\""));
    }
}
