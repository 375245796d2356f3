//! Durations as Go's `time.ParseDuration` reads them: `1h30m`.

use std::time::Duration;

/// The units, in nanoseconds.
const UNITS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// The longest duration in nanoseconds, of about 292 years.
const MAX_NANOS: f64 = i64::MAX as f64;

/// Parses numbers with units, as in `1h30m`, with an optional sign; or a bare zero. A negative duration is zero here,
/// since none is shorter where it is used.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || "invalid duration".to_owned();
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        let number = rest.bytes().take_while(|byte| digits(*byte)).count();
        let (amount, tail) = rest.split_at(number);
        let dots = amount.matches('.').count();
        if amount.len() == dots || dots > 1 {
            return Err(invalid());
        }
        let unit = tail.bytes().take_while(|byte| !digits(*byte)).count();
        let (unit, tail) = tail.split_at(unit);
        let known = UNITS.iter().find(|(name, _)| *name == unit);
        let (_, scale) = match unit {
            "" => return Err("missing unit in duration".to_owned()),
            _ => known.ok_or_else(|| format!("unknown unit {unit:?} in duration"))?,
        };
        nanos += amount.parse::<f64>().map_err(|_| invalid())? * scale;
        rest = tail;
    }
    if nanos > MAX_NANOS {
        return Err(invalid());
    }
    match text.starts_with('-') {
        true => Ok(Duration::ZERO),
        false => Ok(Duration::from_secs_f64(nanos / 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<u64, &str>) {
        let millis = parse(text).map(|duration| duration.as_millis() as u64);
        assert_eq!(millis, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn numbers_with_units_add_up() {
        check("1h30m", Ok(5_400_000));
        check("1.5s", Ok(1_500));
        check(".5s20ms", Ok(520));
        check("+2000us", Ok(2));
        check("-3h", Ok(0));
        check("0", Ok(0));
    }

    #[test]
    fn invalid_durations_are_reported() {
        check("", Err("invalid duration"));
        check(".s", Err("invalid duration"));
        check("1.2.3s", Err("invalid duration"));
        check("9999999h", Err("invalid duration"));
        check("3", Err("missing unit in duration"));
        check("3d", Err("unknown unit \"d\" in duration"));
    }
}
