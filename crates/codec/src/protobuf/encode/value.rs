//! Encoding of single values: scalars, and types whose JSON form differs from their message. Null is the zero of each
//! type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_schema::time::{Precision, to_unix};
use setpoint_schema::write::write_tree;
use setpoint_schema::{FieldType, Shape, ShapeRef, Tree};

use super::message;
use crate::protobuf::duration;
use crate::protobuf::reverse_buffer::ReverseBuffer;

/// The zero time, which is null in JSON and an empty message here: the first second of the year 1.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

/// Writes a value as a field.
pub(super) fn write(buffer: &mut ReverseBuffer, number: u32, of: &FieldType, value: &Tree) {
    match of {
        FieldType::String => buffer.delimited(number, value.as_str().unwrap_or_default().as_bytes()),
        FieldType::Bool => buffer.number(number, value.as_bool().unwrap_or_default().into()),
        FieldType::Int32 | FieldType::Int64 => buffer.number(number, value.as_i64().unwrap_or_default()),
        FieldType::Double => buffer.double(number, double(value)),
        FieldType::Bytes => buffer.delimited(number, &bytes(value)),
        _ => {
            let mark = buffer.mark();
            body(buffer, of, value);
            buffer.close(number, mark);
        }
    }
}

/// Writes the content of a value that is a message.
fn body(buffer: &mut ReverseBuffer, of: &FieldType, value: &Tree) {
    match of {
        FieldType::Shape(link) if link.shape().wrap => wrapped(buffer, link.shape(), value),
        FieldType::Shape(link) => message(buffer, link.shape(), value),
        FieldType::Time => time(buffer, value, Precision::Seconds),
        FieldType::MicroTime => time(buffer, value, Precision::Micros),
        FieldType::Duration => buffer.number(
            1,
            value.as_str().and_then(duration::from_text).unwrap_or_default(),
        ),
        FieldType::Quantity => quantity(buffer, value),
        FieldType::IntOrString => int_or_string(buffer, value),
        FieldType::RawJson => raw_json(buffer, value),
        FieldType::SchemaOrBool(link) => schema_or_bool(buffer, link, value),
        FieldType::SchemaOrArray(link) | FieldType::SchemaOrStrings(link) => {
            schema_or_list(buffer, link, value)
        }
        _ => unreachable!("plain values are no messages"),
    }
}

fn double(value: &Tree) -> f64 {
    match value {
        Tree::Int(number) => *number as f64,
        Tree::Float(number) => *number,
        _ => 0.0,
    }
}

/// Decodes Base64; line breaks are ignored.
fn bytes(value: &Tree) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    let decoded = match text.contains(['\r', '\n']) {
        true => STANDARD.decode(text.replace(['\r', '\n'], "")),
        false => STANDARD.decode(text),
    };
    decoded.unwrap_or_default()
}

fn time(buffer: &mut ReverseBuffer, value: &Tree, precision: Precision) {
    let instant = value.as_str().and_then(|text| to_unix(text, precision).ok());
    let (seconds, micros) = match instant {
        None | Some((ZERO_TIME_SECONDS, 0)) => return,
        Some((seconds, _)) if precision == Precision::Seconds => (seconds, 0),
        Some(instant) => instant,
    };
    buffer.number(2, i64::from(micros) * 1000);
    buffer.number(1, seconds);
}

/// A quantity is its text. Stored objects may hold a JSON number where the text would have no suffix.
fn quantity(buffer: &mut ReverseBuffer, value: &Tree) {
    match value {
        Tree::Str(text) => buffer.delimited(1, text.as_bytes()),
        Tree::Int(number) => buffer.delimited(1, number.to_string().as_bytes()),
        Tree::Float(number) => buffer.delimited(1, number.to_string().as_bytes()),
        _ => buffer.delimited(1, b"0"),
    }
}

fn int_or_string(buffer: &mut ReverseBuffer, value: &Tree) {
    let word = value.as_str();
    buffer.delimited(3, word.unwrap_or_default().as_bytes());
    buffer.number(2, value.as_i64().unwrap_or_default());
    buffer.number(1, word.is_some().into());
}

fn raw_json(buffer: &mut ReverseBuffer, value: &Tree) {
    if value.is_null() {
        return;
    }
    let mut raw = Vec::with_capacity(256);
    write_tree(value, &mut raw);
    buffer.delimited(1, &raw);
}

fn schema_or_bool(buffer: &mut ReverseBuffer, link: &ShapeRef, value: &Tree) {
    let is_schema = value.as_map().is_some();
    if is_schema {
        schema(buffer, 2, link, value);
    }
    buffer.number(1, (is_schema || value.as_bool().unwrap_or_default()).into());
}

/// A schema in field 1, or a list of schemas or of strings in field 2.
fn schema_or_list(buffer: &mut ReverseBuffer, link: &ShapeRef, value: &Tree) {
    match value {
        Tree::Map(_) => schema(buffer, 1, link, value),
        Tree::List(items) => items.iter().rev().for_each(|item| match item {
            Tree::Str(word) => buffer.delimited(2, word.as_bytes()),
            item => schema(buffer, 2, link, item),
        }),
        _ => {}
    }
}

fn schema(buffer: &mut ReverseBuffer, number: u32, link: &ShapeRef, value: &Tree) {
    let mark = buffer.mark();
    message(buffer, link.shape(), value);
    buffer.close(number, mark);
}

/// A list as the message that wraps it.
fn wrapped(buffer: &mut ReverseBuffer, shape: &Shape, value: &Tree) {
    let (Some(slot), Some(items)) = (shape.proto_fields().first(), value.as_list()) else {
        return;
    };
    let of = &shape.declared_field(*slot).value_type;
    for item in items.iter().rev() {
        write(buffer, slot.number, of, item);
    }
}
