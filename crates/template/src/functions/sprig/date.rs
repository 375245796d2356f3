//! Dates and durations. The time zone `Local` and the current time come from the caller.

use std::rc::Rc;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::super::Type::{Any, String as Text, Time};
use super::super::{Context, Row, row};
use super::text::text;
use crate::duration;
use crate::time_format;
use crate::value::{Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("now", &[], |context, _| {
        time(context.now()?.to_zoned(context.time_zone().clone()))
    }),
    row("date", &[Text, Any], |context, args| {
        in_zone(context, args[0].as_str(), &args[1].value, "Local")
    }),
    row("dateInZone", &[Text, Any, Text], date_in_zone),
    row("date_in_zone", &[Text, Any, Text], date_in_zone),
    row("htmlDate", &[Any], |context, args| {
        in_zone(context, HTML, &args[0].value, "Local")
    }),
    row("htmlDateInZone", &[Any, Text], |context, args| {
        in_zone(context, HTML, &args[0].value, args[1].as_str())
    }),
    row("dateModify", &[Text, Time], date_modify),
    row("date_modify", &[Text, Time], date_modify),
    row("mustDateModify", &[Text, Time], must_date_modify),
    row("must_date_modify", &[Text, Time], must_date_modify),
    row("toDate", &[Text, Text], |context, args| {
        match parse(context, args) {
            Ok(date) => time(date),
            Err(_) => time(zero()),
        }
    }),
    row("mustToDate", &[Text, Text], |context, args| {
        time(parse(context, args)?)
    }),
    row("unixEpoch", &[Time], |_, args| match &args[0].value {
        Value::Time(time) => text(time.timestamp().as_second().to_string()),
        _ => text("0"),
    }),
    row("ago", &[Any], |context, args| {
        let now = context.now()?;
        let elapsed = now.duration_since(instant(context, &args[0].value)?);
        let seconds = (elapsed.as_nanos() as f64 / 1e9).round() as i64;
        text(duration::to_string(SignedDuration::from_secs(seconds)))
    }),
    row("duration", &[Any], |_, args| {
        let seconds = match &args[0].value {
            Value::String(text) => text.parse().unwrap_or(0),
            Value::Int64(seconds) => *seconds,
            _ => 0,
        };
        text(duration::to_string(SignedDuration::from_nanos(
            seconds.wrapping_mul(1_000_000_000),
        )))
    }),
    row("durationRound", &[Any], duration_round),
];

const HTML: &str = "2006-01-02";

fn time(time: Zoned) -> Result<Value, String> {
    Ok(Value::Time(Rc::new(time)))
}

/// Go's zero time.
fn zero() -> Zoned {
    jiff::civil::date(1, 1, 1)
        .to_zoned(TimeZone::UTC)
        .unwrap_or_default()
}

fn parse(context: &Context<'_>, args: &[Operand]) -> Result<Zoned, String> {
    time_format::parse(args[0].as_str(), args[1].as_str(), context.time_zone())
}

/// The time of a value: a date, seconds since 1970, or now.
fn instant(context: &Context<'_>, value: &Value) -> Result<Timestamp, String> {
    match value {
        Value::Time(time) => Ok(time.timestamp()),
        Value::Int(seconds) | Value::Int64(seconds) => {
            Timestamp::from_second(*seconds).map_err(|error| error.to_string())
        }
        _ => context.now(),
    }
}

fn in_zone(context: &Context<'_>, layout: &str, value: &Value, zone: &str) -> Result<Value, String> {
    let zone = match zone {
        "Local" => context.time_zone().clone(),
        "" => TimeZone::UTC,
        name => TimeZone::get(name).unwrap_or(TimeZone::UTC),
    };
    let time = instant(context, value)?.to_zoned(zone);
    context.charge(layout.len())?;
    text(time_format::format(&time, layout))
}

fn date_in_zone(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    in_zone(context, args[0].as_str(), &args[1].value, args[2].as_str())
}

fn date_modify(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    match duration::parse(args[0].as_str()) {
        Ok(_) => must_date_modify(context, args),
        Err(_) => Ok(args[1].value.clone()),
    }
}

fn must_date_modify(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let duration = duration::parse(args[0].as_str())?;
    match &args[1].value {
        Value::Time(date) => time(date.checked_add(duration).map_err(|error| error.to_string())?),
        value => Ok(value.clone()),
    }
}

/// The duration in its largest unit.
fn duration_round(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let nanos = match &args[0].value {
        Value::String(text) => duration::parse(text).map_or(0, |duration| duration.as_nanos()),
        Value::Int64(nanos) => i128::from(*nanos),
        Value::Time(time) => context.now()?.duration_since(time.timestamp()).as_nanos(),
        _ => 0,
    };
    const SECOND: u128 = 1_000_000_000;
    const UNITS: [(u128, &str); 6] = [
        (SECOND * 86_400 * 365, "y"),
        (SECOND * 86_400 * 30, "mo"),
        (SECOND * 86_400, "d"),
        (SECOND * 3600, "h"),
        (SECOND * 60, "m"),
        (SECOND, "s"),
    ];
    let nanos = nanos.unsigned_abs();
    match UNITS.iter().find(|(unit, _)| nanos > *unit) {
        Some((unit, name)) => text(format!("{}{name}", nanos / unit)),
        None => text("0s"),
    }
}
