//! Durations as Go writes and reads them: `1h2m3.5s`.

use jiff::SignedDuration;

use crate::quote::quote;

/// The text of a duration.
pub(crate) fn to_string(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let magnitude = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let fraction = |value: u128, unit: u128| {
        let digits = unit.to_string().len() - 1;
        let text = format!("{}.{:0digits$}", value / unit, value % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let text = match magnitude {
        0 => return "0s".to_owned(),
        1..1_000 => format!("{magnitude}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(magnitude, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(magnitude, 1_000_000)),
        _ => {
            let minutes = magnitude / 60_000_000_000;
            let seconds = fraction(magnitude % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// The duration of a text; the error is Go's.
pub(crate) fn parse(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let mut rest = unsigned;
    let mut nanos = 0_f64;
    let mut whole_nanos = 0_i128;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        if digits == 0 || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let factor: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
            unit => {
                return Err(format!(
                    "time: unknown unit {} in duration {}",
                    quote(unit),
                    quote(text)
                ));
            }
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: i128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        whole_nanos += whole.checked_mul(i128::from(factor)).ok_or_else(invalid)?;
        let fraction: f64 = format!("0.{fraction}0").parse().map_err(|_| invalid())?;
        nanos += (fraction * factor as f64).trunc();
        rest = after;
    }
    let total = whole_nanos + nanos as i128;
    let total = if text.starts_with('-') { -total } else { total };
    i64::try_from(total)
        .map(SignedDuration::from_nanos)
        .map_err(|_| invalid())
}
