//! The text of a schedule, with the messages of robfig/cron.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::{Fields, duration, zone};

/// When a schedule fires.
#[derive(Debug, Clone)]
pub(super) enum Recurrence {
    /// A fixed time after the last one, in whole seconds.
    Every(Duration),
    At(Fields),
}

/// The range of values of one field of a schedule.
struct ValueRange {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const SECONDS: ValueRange = ValueRange::new(0, 59, &[]);
const MINUTES: ValueRange = ValueRange::new(0, 59, &[]);
const HOURS: ValueRange = ValueRange::new(0, 23, &[]);
const DAYS: ValueRange = ValueRange::new(1, 31, &[]);
const MONTHS: ValueRange = ValueRange::new(
    1,
    12,
    &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
);
const WEEKDAYS: ValueRange = ValueRange::new(0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]);

/// The bit of a field that has a star, so is not restricted.
const STAR: u64 = 1 << 63;

/// Splits off the time zone that a schedule may start with.
pub(super) fn split_zone(text: &str) -> Result<(Option<TimeZone>, &str), String> {
    let Some(rest) = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) else {
        return Ok((None, text));
    };
    let Some((name, schedule)) = rest.split_once(' ') else {
        let start = text.len() - rest.len();
        return Err(format!(
            "invalid schedule format: runtime error: slice bounds out of range [{start}:-1]"
        ));
    };
    let zone = zone(name).map_err(|why| format!("provided bad location {name}: {why}"))?;
    Ok((Some(zone), schedule.trim()))
}

/// Splits off the seconds of a schedule with six fields; `None` if it has five, or is a descriptor.
pub(super) fn split_seconds(text: &str) -> Result<Option<(u64, String)>, String> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields[..] {
        _ if text.starts_with('@') => Ok(None),
        [seconds, ref rest @ ..] if rest.len() == 5 => {
            Ok(Some((SECONDS.parse_field(seconds)?, rest.join(" "))))
        }
        [_, _, _, _, _] => Ok(None),
        _ => Err(format!("expected 5 or 6 fields, found {}: {text}", fields.len())),
    }
}

impl Recurrence {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(period) = text.strip_prefix("@every ") {
            let period = duration::parse(period)
                .map_err(|why| format!("failed to parse duration {text}: time: {why} {period:?}"))?;
            return Ok(Self::Every(Duration::from_secs(period.as_secs().max(1))));
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => return Err(format!("unrecognized descriptor: {text}")),
            _ => text,
        };
        Fields::parse(fields).map(Self::At)
    }
}

impl Fields {
    fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let found = fields.len();
            return Err(format!(
                "expected exactly 5 fields, found {found}: [{}]",
                fields.join(" ")
            ));
        };
        let fields = Self {
            seconds: 1,
            minutes: MINUTES.parse_field(minutes)?,
            hours: HOURS.parse_field(hours)?,
            days: DAYS.parse_field(days)?,
            months: MONTHS.parse_field(months)?,
            weekdays: WEEKDAYS.parse_field(weekdays)?,
            either_day: false,
        };
        Ok(Self {
            either_day: (fields.days | fields.weekdays) & STAR == 0,
            ..fields
        })
    }
}

// === impl ValueRange ===

impl ValueRange {
    const fn new(min: u64, max: u64, names: &'static [&'static str]) -> Self {
        Self { min, max, names }
    }

    /// The bits of a field: spans, separated by commas.
    fn parse_field(&self, field: &str) -> Result<u64, String> {
        let mut spans = field.split(',').filter(|span| !span.is_empty());
        spans.try_fold(0, |bits, span| Ok(bits | self.parse_span(span)?))
    }

    /// The bits of a number, a range with a dash, or a star; with an optional `/step`.
    fn parse_span(&self, text: &str) -> Result<u64, String> {
        let mut halves = text.split('/');
        let (span, step, more) = (halves.next().unwrap_or_default(), halves.next(), halves.next());
        let ends: Vec<&str> = span.split('-').collect();
        let open = matches!(ends[0], "*" | "?");
        let (start, mut end) = match ends.as_slice() {
            _ if open => (self.min, self.max),
            [only] => {
                let number = self.number(only)?;
                (number, number)
            }
            [start, end] => (self.number(start)?, self.number(end)?),
            _ => return Err(format!("too many hyphens: {text}")),
        };
        if more.is_some() {
            return Err(format!("too many slashes: {text}"));
        }
        let by = step.map_or(Ok(1), number)?;
        if step.is_some() && ends.len() == 1 {
            end = self.max;
        }
        self.check_ends(start, end, text)?;
        if by == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        let step = usize::try_from(by).unwrap_or(usize::MAX);
        let star = if open && by == 1 { STAR } else { 0 };
        Ok((start..=end).step_by(step).fold(star, |bits, at| bits | 1 << at))
    }

    fn check_ends(&self, start: u64, end: u64, text: &str) -> Result<(), String> {
        let (min, max) = (self.min, self.max);
        match () {
            () if start < min => Err(format!(
                "beginning of range ({start}) below minimum ({min}): {text}"
            )),
            () if end > max => Err(format!("end of range ({end}) above maximum ({max}): {text}")),
            () if start > end => Err(format!(
                "beginning of range ({start}) beyond end of range ({end}): {text}"
            )),
            () => Ok(()),
        }
    }

    fn number(&self, text: &str) -> Result<u64, String> {
        let lower = text.to_lowercase();
        match self.names.iter().position(|name| *name == lower) {
            Some(at) => Ok(self.min + at as u64),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}");
    match text.parse::<i64>() {
        _ if !valid => Err(why("invalid syntax")),
        Err(_) => Err(why("value out of range")),
        Ok(number @ ..0) => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number.unsigned_abs()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use crate::cron::Schedule;

    #[track_caller]
    fn check_valid(text: &str) {
        assert_eq!(Schedule::parse(text, TimeZone::UTC).map(drop), Ok(()));
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(
            Schedule::parse(text, TimeZone::UTC).map(drop),
            Err(expected.to_owned())
        );
    }

    #[test]
    fn schedules_have_five_fields_or_are_a_descriptor() {
        check_valid("*/5 * * * *");
        check_valid("0 0-23/2 1,15 jan-MAR ?");
        check_valid("5/10 * * * sun,1");
        check_valid("@hourly");
        check_valid("@every 1h30m");
        check_valid("@every -1.5h");
        check_valid("TZ=Europe/Paris 0 0 * * *");
        check("", "empty spec string");
        check("x", "expected exactly 5 fields, found 1: [x]");
        check("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]");
        check("@often", "unrecognized descriptor: @often");
    }

    #[test]
    fn numbers_stay_in_their_range() {
        check("99 * * * *", "end of range (99) above maximum (59): 99");
        check("* * 0 * *", "beginning of range (0) below minimum (1): 0");
        check(
            "5-3 * * * *",
            "beginning of range (5) beyond end of range (3): 5-3",
        );
        check("*/0 * * * *", "step of range should be a positive number: */0");
        check("1-2-3 * * * *", "too many hyphens: 1-2-3");
        check("1/2/3 * * * *", "too many slashes: 1/2/3");
        check(
            "a * * * *",
            "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax",
        );
        check(
            "-1 * * * *",
            "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax",
        );
    }

    #[test]
    fn durations_have_units() {
        check(
            "@every 5",
            "failed to parse duration @every 5: time: missing unit in duration \"5\"",
        );
        check(
            "@every 1d",
            "failed to parse duration @every 1d: time: unknown unit \"d\" in duration \"1d\"",
        );
        check(
            "@every x",
            "failed to parse duration @every x: time: invalid duration \"x\"",
        );
    }

    #[test]
    fn a_schedule_may_start_with_a_time_zone() {
        check(
            "TZ=Nowhere 0 0 * * *",
            "provided bad location Nowhere: unknown time zone Nowhere",
        );
        check(
            "TZ=0",
            "invalid schedule format: runtime error: slice bounds out of range [3:-1]",
        );
    }
}
