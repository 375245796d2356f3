//! JSON: `toJson`, `fromJson` and others.

use super::super::Type::{Any, String as Text};
use super::super::{Context, Row, row};
use super::json_writer::{Style, to_json};
use super::text::text;
use crate::value::{NumberType, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("toJson", &[Any], |context, args| {
        lenient(context, write(context, args, COMPACT))
    }),
    row("mustToJson", &[Any], |context, args| {
        write(context, args, COMPACT)
    }),
    row("toPrettyJson", &[Any], |context, args| {
        lenient(context, write(context, args, PRETTY))
    }),
    row("mustToPrettyJson", &[Any], |context, args| {
        write(context, args, PRETTY)
    }),
    row("toRawJson", &[Any], |context, args| write(context, args, RAW)),
    row("mustToRawJson", &[Any], |context, args| write(context, args, RAW)),
    row("fromJson", &[Text], |context, args| {
        lenient(context, read(args)).map(nil_if_empty)
    }),
    row("mustFromJson", &[Text], |_, args| read(args)),
];

const COMPACT: Style = Style {
    indent: None,
    is_raw: false,
};
const PRETTY: Style = Style {
    indent: Some(2),
    is_raw: false,
};
const RAW: Style = Style {
    indent: None,
    is_raw: true,
};

fn write(context: &Context<'_>, args: &[Operand], style: Style) -> Result<Value, String> {
    text(to_json(context, &args[0].value, style)?)
}

/// The result, or an empty text for an error that is not of the limits.
fn lenient(context: &Context<'_>, result: Result<Value, String>) -> Result<Value, String> {
    context.charge(1)?;
    Ok(result.unwrap_or_else(|_| Value::string("")))
}

fn nil_if_empty(value: Value) -> Value {
    match value {
        Value::String(text) if text.is_empty() => Value::Nil,
        value => value,
    }
}

fn read(args: &[Operand]) -> Result<Value, String> {
    parse(args[0].as_str())
}

/// The value of a JSON text. Its numbers are floating-point numbers.
pub(super) fn parse(source: &str) -> Result<Value, String> {
    let json: serde_json::Value = serde_json::from_str(source).map_err(|error| describe(source, &error))?;
    Ok(Value::from_json(&json, NumberType::Float64))
}

/// The error in the words of Go's `encoding/json`, where the position gives it.
fn describe(source: &str, error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let lines = source.split_inclusive('\n').take(error.line().saturating_sub(1));
    let offset = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    let rest = source.get(offset..).unwrap_or_default();
    let Some(c) = rest.chars().next() else {
        return "unexpected end of JSON input".to_owned();
    };
    let context = match error.to_string() {
        text if text.starts_with("trailing characters") => "after top-level value",
        text if text.starts_with("key must be a string") => "looking for beginning of object key string",
        text if text.starts_with("expected `:`") => "after object key",
        text if text.starts_with("expected `,` or `}`") => "after object key:value pair",
        text if text.starts_with("expected `,` or `]`") => "after array element",
        _ => "looking for beginning of value",
    };
    format!(
        "invalid character {} {context}",
        crate::quote::quote_char(c, false)
    )
}
