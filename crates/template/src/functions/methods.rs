//! Methods of values that have some in Go: times and versions.

use std::rc::Rc;

use jiff::Zoned;
use jiff::tz::TimeZone;

use super::{Function, Type};
use crate::time_format;
use crate::value::{Value, Version};

/// The method of a value.
pub(crate) fn find(value: &Value, name: &str) -> Option<Function> {
    match value {
        Value::Time(time) => time_method(time, name),
        Value::Version(version) => version_method(version, name),
        _ => None,
    }
}

/// A method without parameters, whose result is known.
fn constant(result: impl Fn() -> Value + Send + Sync + 'static) -> Option<Function> {
    Some(Function::new(Vec::new(), move |_, _| Ok(result())))
}

fn int(value: i64) -> Option<Function> {
    constant(move || Value::Int(value))
}

fn text(value: String) -> Option<Function> {
    constant(move || Value::string(value.as_str()))
}

fn time_method(time: &Zoned, name: &str) -> Option<Function> {
    match name {
        "Format" => {
            let time = time.clone();
            Some(Function::new(vec![Type::String], move |context, args| {
                context.charge(args[0].as_str().len())?;
                Ok(Value::string(time_format::format(&time, args[0].as_str())))
            }))
        }
        "String" => text(time_format::to_string(time)),
        "Unix" => {
            let seconds = time.timestamp().as_second();
            constant(move || Value::Int64(seconds))
        }
        "UnixMilli" => {
            let millis = time.timestamp().as_millisecond();
            constant(move || Value::Int64(millis))
        }
        "UTC" => {
            let utc = time.with_time_zone(TimeZone::UTC);
            constant(move || Value::Time(Rc::new(utc.clone())))
        }
        "Year" => int(i64::from(time.year())),
        "Day" => int(i64::from(time.day())),
        "YearDay" => int(i64::from(time.day_of_year())),
        "Hour" => int(i64::from(time.hour())),
        "Minute" => int(i64::from(time.minute())),
        "Second" => int(i64::from(time.second())),
        "Nanosecond" => int(i64::from(time.subsec_nanosecond())),
        "IsZero" => {
            let is_zero = time.timestamp().as_second() == -62_135_596_800;
            constant(move || Value::Bool(is_zero))
        }
        _ => None,
    }
}

fn version_method(version: &Version, name: &str) -> Option<Function> {
    let number = |value: u64| constant(move || Value::Uint64(value));
    match name {
        "Major" => number(version.major),
        "Minor" => number(version.minor),
        "Patch" => number(version.patch),
        "Prerelease" => text(version.prerelease.clone()),
        "Metadata" => text(version.metadata.clone()),
        "Original" => text(version.original.clone()),
        "String" => text(version.to_string()),
        _ => None,
    }
}
