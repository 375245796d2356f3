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

/// Writes a duration as Go's `Duration.String` does: `15.023s`, `1m0s`, `1h0m5s`, `0s`; below a second `20ms`, `1.5µs`.
pub fn format(duration: Duration) -> String {
    let fraction = |whole: u128, rest: u128, digits: usize| {
        let text = format!("{whole}.{rest:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let nanos = duration.as_nanos();
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(nanos / 1_000, nanos % 1_000, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(nanos / 1_000_000, nanos % 1_000_000, 6)),
        _ => {
            let minutes = duration.as_secs() / 60;
            let seconds = fraction(
                (duration.as_secs() % 60).into(),
                duration.subsec_nanos().into(),
                9,
            );
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    }
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
    fn a_duration_is_written_as_go_does() {
        let rows = [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5µs"),
            (20_000_000, "20ms"),
            (10_000_000_000, "10s"),
            (15_023_000_000, "15.023s"),
            (60_000_000_000, "1m0s"),
            (3_605_500_000_000, "1h0m5.5s"),
        ];
        for (nanos, text) in rows {
            assert_eq!(format(Duration::from_nanos(nanos)), text);
        }
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
