//! Fields of timestamps and durations.

use jiff::Zoned;
use jiff::tz::{Offset, TimeZone};

use super::{Builtin, no_such_overload};
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("getFullYear", |args, _| {
        field(args, |at| i64::from(at.year()), None)
    }),
    ("getMonth", |args, _| {
        field(args, |at| i64::from(at.month()) - 1, None)
    }),
    ("getDayOfYear", |args, _| {
        field(args, |at| i64::from(at.day_of_year()) - 1, None)
    }),
    ("getDayOfMonth", |args, _| {
        field(args, |at| i64::from(at.day()) - 1, None)
    }),
    ("getDate", |args, _| field(args, |at| i64::from(at.day()), None)),
    ("getDayOfWeek", |args, _| {
        field(args, |at| i64::from(at.weekday().to_sunday_zero_offset()), None)
    }),
    ("getHours", |args, _| {
        field(args, |at| i64::from(at.hour()), Some(3600 * 1000))
    }),
    ("getMinutes", |args, _| {
        field(args, |at| i64::from(at.minute()), Some(60 * 1000))
    }),
    ("getSeconds", |args, _| {
        field(args, |at| i64::from(at.second()), Some(1000))
    }),
    ("getMilliseconds", |args, _| {
        field(args, |at| i64::from(at.millisecond()), Some(1))
    }),
];

type Outcome<'a> = Result<Value<'a>, String>;

/// A field of a timestamp, in a time zone; or a duration in a unit of this many milliseconds.
fn field<'a>(args: &[Value<'a>], read: impl FnOnce(&Zoned) -> i64, unit: Option<i128>) -> Outcome<'a> {
    match (args, unit) {
        ([Value::Timestamp(at)], _) => Ok(Value::Int(read(&at.to_zoned(TimeZone::UTC)))),
        ([Value::Timestamp(at), Value::String(zone)], _) => {
            let zone = parse_zone(zone.as_str())?;
            Ok(Value::Int(read(&at.to_zoned(zone))))
        }
        ([Value::Duration(duration)], Some(unit)) => {
            let amount = duration.as_millis() / unit;
            Ok(Value::Int(i64::try_from(amount).unwrap_or(i64::MAX)))
        }
        _ => no_such_overload(),
    }
}

/// A name of a zone, or an offset such as `+02:00`.
fn parse_zone(text: &str) -> Result<TimeZone, String> {
    if let Some((hours, minutes)) = text.split_once(':') {
        let is_negative = hours.starts_with('-');
        let hours: i32 = hours.parse().map_err(|_| bad_zone(text))?;
        let minutes: i32 = minutes.parse().map_err(|_| bad_zone(text))?;
        let seconds = hours * 3600 + if is_negative { -minutes } else { minutes } * 60;
        let offset = Offset::from_seconds(seconds).map_err(|_| bad_zone(text))?;
        return Ok(TimeZone::fixed(offset));
    }
    TimeZone::get(text).map_err(|_| bad_zone(text))
}

fn bad_zone(text: &str) -> String {
    format!("unknown time zone {text}")
}
