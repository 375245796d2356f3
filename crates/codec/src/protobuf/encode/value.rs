//! Single values: plain ones, and those whose JSON form differs from their message. Null is the zero of each type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_schema::time::{Precision, to_unix};
use setpoint_schema::write::write_tree;
use setpoint_schema::{Link, Of, Shape, Tree};

use super::message;
use crate::protobuf::duration;
use crate::protobuf::tail::Tail;

/// The zero time, which is null in JSON and an empty message here: the first second of the year 1.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;

/// Writes a value as a field.
pub(super) fn write(tail: &mut Tail, number: u32, of: &Of, value: &Tree) {
    match of {
        Of::String => tail.delimited(number, value.as_str().unwrap_or_default().as_bytes()),
        Of::Bool => tail.number(number, value.as_bool().unwrap_or_default().into()),
        Of::Int32 | Of::Int64 => tail.number(number, value.as_i64().unwrap_or_default()),
        Of::Double => tail.double(number, double(value)),
        Of::Bytes => tail.delimited(number, &bytes(value)),
        _ => {
            let mark = tail.mark();
            body(tail, of, value);
            tail.close(number, mark);
        }
    }
}

/// Writes the inside of a value that is a message.
fn body(tail: &mut Tail, of: &Of, value: &Tree) {
    match of {
        Of::Shape(link) if link.shape().wrap => wrapped(tail, link.shape(), value),
        Of::Shape(link) => message(tail, link.shape(), value),
        Of::Time => time(tail, value, Precision::Seconds),
        Of::MicroTime => time(tail, value, Precision::Micros),
        Of::Duration => tail.number(
            1,
            value.as_str().and_then(duration::from_text).unwrap_or_default(),
        ),
        Of::Quantity => quantity(tail, value),
        Of::IntOrString => int_or_string(tail, value),
        Of::RawJson => raw_json(tail, value),
        Of::SchemaOrBool(link) => schema_or_bool(tail, link, value),
        Of::SchemaOrArray(link) | Of::SchemaOrStrings(link) => schema_or_list(tail, link, value),
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

/// Base64 to bytes; line breaks are passed over.
fn bytes(value: &Tree) -> Vec<u8> {
    let text = value.as_str().unwrap_or_default();
    let decoded = match text.contains(['\r', '\n']) {
        true => STANDARD.decode(text.replace(['\r', '\n'], "")),
        false => STANDARD.decode(text),
    };
    decoded.unwrap_or_default()
}

fn time(tail: &mut Tail, value: &Tree, precision: Precision) {
    let instant = value.as_str().and_then(|text| to_unix(text, precision).ok());
    let (seconds, micros) = match instant {
        None | Some((ZERO_TIME_SECONDS, 0)) => return,
        Some((seconds, _)) if precision == Precision::Seconds => (seconds, 0),
        Some(instant) => instant,
    };
    tail.number(2, i64::from(micros) * 1000);
    tail.number(1, seconds);
}

/// An amount is its text. Stored documents may hold whole numbers where the text would have no suffix.
fn quantity(tail: &mut Tail, value: &Tree) {
    match value {
        Tree::Str(text) => tail.delimited(1, text.as_bytes()),
        Tree::Int(number) => tail.delimited(1, number.to_string().as_bytes()),
        Tree::Float(number) => tail.delimited(1, number.to_string().as_bytes()),
        _ => tail.delimited(1, b"0"),
    }
}

fn int_or_string(tail: &mut Tail, value: &Tree) {
    let word = value.as_str();
    tail.delimited(3, word.unwrap_or_default().as_bytes());
    tail.number(2, value.as_i64().unwrap_or_default());
    tail.number(1, word.is_some().into());
}

fn raw_json(tail: &mut Tail, value: &Tree) {
    if value.is_null() {
        return;
    }
    let mut raw = Vec::with_capacity(256);
    write_tree(value, &mut raw);
    tail.delimited(1, &raw);
}

fn schema_or_bool(tail: &mut Tail, link: &Link, value: &Tree) {
    let is_schema = value.as_map().is_some();
    if is_schema {
        schema(tail, 2, link, value);
    }
    tail.number(1, (is_schema || value.as_bool().unwrap_or_default()).into());
}

/// A schema in field 1, or a list of schemas or of strings in field 2.
fn schema_or_list(tail: &mut Tail, link: &Link, value: &Tree) {
    match value {
        Tree::Map(_) => schema(tail, 1, link, value),
        Tree::List(items) => items.iter().rev().for_each(|item| match item {
            Tree::Str(word) => tail.delimited(2, word.as_bytes()),
            item => schema(tail, 2, link, item),
        }),
        _ => {}
    }
}

fn schema(tail: &mut Tail, number: u32, link: &Link, value: &Tree) {
    let mark = tail.mark();
    message(tail, link.shape(), value);
    tail.close(number, mark);
}

/// A bare list as the message that wraps it.
fn wrapped(tail: &mut Tail, shape: &Shape, value: &Tree) {
    let (Some(slot), Some(items)) = (shape.slots().first(), value.as_list()) else {
        return;
    };
    let of = &shape.slot_field(*slot).of;
    for item in items.iter().rev() {
        write(tail, slot.number, of, item);
    }
}
