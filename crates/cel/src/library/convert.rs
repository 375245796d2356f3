//! Conversions between types.

use std::sync::Arc;

use jiff::Timestamp;
use regex::Regex;

use super::Builtin;
use crate::opaque::Opaque;
use crate::time;
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("type", to_type),
    ("dyn", to_dyn),
    ("bool", to_bool),
    ("bytes", to_bytes),
    ("double", to_double),
    ("duration", to_duration),
    ("int", to_int),
    ("string", to_string),
    ("timestamp", to_timestamp),
    ("uint", to_uint),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn to_type<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [value] => Ok(Value::Type(value.type_of())),
        _ => no_conversion("type", args),
    }
}

fn to_dyn<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [value] => Ok(value.clone()),
        _ => no_conversion("dyn", args),
    }
}

fn to_bool<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [Value::String(text)] => match text.as_str() {
            "true" | "True" | "TRUE" | "t" | "1" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "f" | "0" => Ok(Value::Bool(false)),
            _ => bad_conversion("bool"),
        },
        _ => no_conversion("bool", args),
    }
}

fn to_bytes<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.clone())),
        [Value::String(text)] => Ok(Value::Bytes(Arc::from(text.as_str().as_bytes()))),
        _ => no_conversion("bytes", args),
    }
}

fn to_double<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Double(number)] => Ok(Value::Double(*number)),
        [Value::Int(number)] => Ok(Value::Double(*number as f64)),
        [Value::Uint(number)] => Ok(Value::Double(*number as f64)),
        [Value::String(text)] => match text.as_str().parse() {
            Ok(number) => Ok(Value::Double(number)),
            Err(_) => bad_conversion("double"),
        },
        _ => no_conversion("double", args),
    }
}

fn to_duration<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Duration(duration)] => Ok(Value::Duration(*duration)),
        [Value::String(text)] => match time::parse_duration(text.as_str()) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => bad_conversion("google.protobuf.Duration"),
        },
        _ => no_conversion("duration", args),
    }
}

fn to_int<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let overflow = || "integer overflow".to_owned();
    match args {
        [Value::Int(number)] => Ok(Value::Int(*number)),
        [Value::Uint(number)] => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        [Value::Double(number)] => {
            match *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0 {
                true => Ok(Value::Int(*number as i64)),
                false => Err(overflow()),
            }
        }
        [Value::Duration(duration)] => {
            let nanos = i64::try_from(duration.as_nanos());
            nanos.map(Value::Int).map_err(|_| overflow())
        }
        [Value::Timestamp(timestamp)] => Ok(Value::Int(timestamp.as_second())),
        [Value::String(text)] => match text.as_str().parse() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => bad_conversion("int"),
        },
        _ => no_conversion("int", args),
    }
}

fn to_uint<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let overflow = || "unsigned integer overflow".to_owned();
    match args {
        [Value::Uint(number)] => Ok(Value::Uint(*number)),
        [Value::Int(number)] => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        [Value::Double(number)] => match *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 {
            true => Ok(Value::Uint(*number as u64)),
            false => Err(overflow()),
        },
        [Value::String(text)] => match text.as_str().parse() {
            Ok(number) => Ok(Value::Uint(number)),
            Err(_) => bad_conversion("uint"),
        },
        _ => no_conversion("uint", args),
    }
}

fn to_timestamp<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Timestamp(timestamp)] => Ok(Value::Timestamp(*timestamp)),
        [Value::Int(seconds)] => Timestamp::from_second(*seconds)
            .map(Value::Timestamp)
            .map_err(|_| "timestamp overflow".to_owned()),
        [Value::String(text)] => match time::parse_timestamp(text.as_str()) {
            Some(timestamp) if text.as_str().len() > 10 => Ok(Value::Timestamp(timestamp)),
            _ => bad_conversion("google.protobuf.Timestamp"),
        },
        _ => no_conversion("timestamp", args),
    }
}

fn to_string<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let text = match args {
        [Value::String(text)] => return Ok(Value::String(text.clone())),
        [Value::Bool(value)] => value.to_string(),
        [Value::Int(number)] => number.to_string(),
        [Value::Uint(number)] => number.to_string(),
        [Value::Double(number)] => double_to_string(*number),
        [Value::Bytes(bytes)] => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err("invalid UTF-8 in bytes, cannot convert to string".to_owned()),
        },
        [Value::Duration(duration)] => time::format_duration(*duration),
        [Value::Timestamp(timestamp)] => timestamp.to_string(),
        [Value::Opaque(Opaque::Ip(address))] => address.to_string(),
        [Value::Opaque(Opaque::Cidr(address, prefix))] => format!("{address}/{prefix}"),
        _ => return no_conversion("string", args),
    };
    Ok(Value::string(text))
}

/// A double in its shortest form, with an exponent from a million on.
pub(crate) fn double_to_string(number: f64) -> String {
    shortest_double(number, 6)
}

/// A double in its shortest form: with an exponent if that is below -4, or this number or more.
pub(crate) fn shortest_double(number: f64, min_exponent: i32) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let exponent: i32 = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or_default();
    if number == 0.0 || (-4..min_exponent).contains(&exponent) {
        return number.to_string();
    }
    let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn no_conversion<T>(to: &str, args: &[Value<'_>]) -> Result<T, String> {
    let from = args.first().map(|value| value.type_of().name());
    Err(format!("no such overload: {to}({})", from.unwrap_or_default()))
}

fn bad_conversion<T>(to: &str) -> Result<T, String> {
    Err(format!("type conversion error from 'string' to '{to}'"))
}
