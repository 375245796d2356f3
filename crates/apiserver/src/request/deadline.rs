//! How long a request may take: `timeout`, a duration in Go's form, at most a minute.

use std::time::Duration;

use super::options::{Refused, bad_request};
use super::query::Query;

const LONGEST: Duration = Duration::from_secs(60);

/// Reads the timeout. Not giving one, or zero, means the longest.
pub fn read(query: &Query<'_>) -> Result<Duration, Refused> {
    let Some(text) = query.text("timeout") else {
        return Ok(LONGEST);
    };
    match parse(text) {
        Ok(Duration::ZERO) => Ok(LONGEST),
        Ok(asked) => Ok(asked.min(LONGEST)),
        Err(why) => Err(bad_request(&format!(
            "invalid timeout specified in the request URL - time: {why}"
        ))),
    }
}

/// Reads `1m30s`, `250ms`, `1.5h`: a sum of numbers with units. What is wrong is said in Go's words.
fn parse(text: &str) -> Result<Duration, String> {
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
        let (number, behind) = split(rest, |c| !(c.is_ascii_digit() || c == '.'));
        let (unit, behind) = split(behind, |c| c.is_ascii_digit() || c == '.');
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
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| invalid())?;
        total = total.checked_add(part).ok_or_else(invalid)?;
        rest = behind;
    }
    Ok(total)
}

/// Splits before the first character that ends a part.
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
    fn nobody_waits_longer_than_a_minute() {
        let seconds = |query| read(&Query::parse(Some(query))).unwrap().as_secs();
        assert_eq!(seconds(""), 60);
        assert_eq!(seconds("timeout=0s"), 60);
        assert_eq!(seconds("timeout=5s"), 5);
        assert_eq!(seconds("timeout=2h"), 60);
    }

    #[test]
    fn what_is_wrong_is_said() {
        check("100", Err("missing unit in duration \"100\""));
        check("x", Err("invalid duration \"x\""));
        check("1x", Err("unknown unit \"x\" in duration \"1x\""));
        check("-1s", Err("invalid duration \"-1s\""));
        check("+", Err("invalid duration \"+\""));
    }
}
