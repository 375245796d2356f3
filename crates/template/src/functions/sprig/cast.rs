//! Conversions of any value to a number, as `github.com/spf13/cast` does them: what cannot be converted is 0.

use crate::format;
use crate::functions::Context;
use crate::parser::number;
use crate::value::Value;

/// The integer of a value.
pub(super) fn to_int64(value: &Value) -> i64 {
    match value {
        Value::Bool(value) => i64::from(*value),
        Value::Float(value) => float_to_int(*value),
        Value::String(text) => number::parse_int(trim_zero_decimal(text)).unwrap_or(0),
        Value::Uint64(value) => value.cast_signed(),
        value => value
            .as_integer()
            .and_then(|value| i64::try_from(value).ok())
            .unwrap_or(0),
    }
}

/// Go's conversion on amd64: a number out of range is the smallest one.
fn float_to_int(value: f64) -> i64 {
    match (-9.223_372_036_854_776e18..9.223_372_036_854_776e18).contains(&value) {
        true => value as i64,
        false => i64::MIN,
    }
}

/// The floating-point number of a value.
pub(super) fn to_float64(value: &Value) -> f64 {
    match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Float(value) => *value,
        Value::String(text) => parse_float(text).unwrap_or(0.0),
        Value::Int(value) | Value::Int64(value) => *value as f64,
        Value::Uint8(value) => f64::from(*value),
        Value::Uint64(value) => *value as f64,
        _ => 0.0,
    }
}

/// Go's `strconv.ParseFloat`, with the names of infinity and not-a-number.
fn parse_float(text: &str) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    match lower.trim_start_matches(['+', '-']) {
        "inf" | "infinity" if lower.starts_with('-') => Some(f64::NEG_INFINITY),
        "inf" | "infinity" => Some(f64::INFINITY),
        "nan" if lower == "nan" => Some(f64::NAN),
        _ => number::parse_float(text),
    }
}

/// A text without a fraction of zeros, such as `3` for `3.00`.
fn trim_zero_decimal(text: &str) -> &str {
    let trimmed = text.trim_end_matches('0');
    match trimmed.strip_suffix('.') {
        Some(whole) if trimmed.len() < text.len() => whole,
        _ => text,
    }
}

/// The text of a value: a string as it is, others as `print` gives them.
pub(super) fn to_text(context: &Context<'_>, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        _ => format::print_verb(value, 'v', context.budget()),
    }
}

/// The texts of a list's items, without nil ones. A single value is a list of one.
pub(super) fn to_texts(context: &Context<'_>, value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Nil => Ok(Vec::new()),
        Value::List(list) => {
            let items = list.items().iter().filter(|item| !matches!(item, Value::Nil));
            items.map(|item| to_text(context, item)).collect()
        }
        _ => Ok(vec![to_text(context, value)?]),
    }
}
