//! Decoding of single values: scalars, and types whose JSON form differs from their message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_schema::prune::check_quantity;
use setpoint_schema::time::{Precision, from_unix};
use setpoint_schema::{Field, FieldType, Map, Shape, ShapeRef, Tree};

use super::{Level, message, wrong_wire};
use crate::json;
use crate::protobuf::duration;
use crate::protobuf::envelope::text;
use crate::protobuf::error::Error;
use crate::protobuf::reader::{DELIMITED, FIXED64, Reader, Tag, VARINT};

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Whether values of a type are length-delimited.
pub(super) fn is_delimited(of: &FieldType) -> bool {
    wire(of) == DELIMITED
}

fn wire(of: &FieldType) -> u8 {
    match of {
        FieldType::Bool | FieldType::Int32 | FieldType::Int64 => VARINT,
        FieldType::Double => FIXED64,
        _ => DELIMITED,
    }
}

/// Decodes one value of a field's type. Nested messages are not decoded here, except wrappers.
pub(super) fn read(reader: &mut Reader<'_>, tag: Tag, field: &Field, level: Level) -> Result<Tree, Error> {
    if tag.wire != wire(&field.value_type) {
        return Err(wrong_wire(tag, field));
    }
    scalar(reader, &field.value_type, level)
}

fn scalar(reader: &mut Reader<'_>, of: &FieldType, level: Level) -> Result<Tree, Error> {
    Ok(match of {
        FieldType::String => Tree::Str(text(reader.delimited()?).into()),
        FieldType::Bool => Tree::Bool(reader.varint()? != 0),
        FieldType::Int32 => Tree::Int(i64::from(reader.varint()? as i32)),
        FieldType::Int64 => Tree::Int(reader.varint()? as i64),
        FieldType::Double => double(reader.fixed64()?)?,
        FieldType::Bytes => Tree::Str(STANDARD.encode(reader.delimited()?).into()),
        _ => return special(reader.delimited()?, of, level),
    })
}

fn special(bytes: &[u8], of: &FieldType, level: Level) -> Result<Tree, Error> {
    match of {
        FieldType::Time => time(bytes, Precision::Seconds),
        FieldType::MicroTime => time(bytes, Precision::Micros),
        FieldType::Duration => Ok(duration::to_text(numbers(bytes)?[0]).into()),
        FieldType::Quantity => quantity(bytes),
        FieldType::IntOrString => int_or_string(bytes),
        FieldType::RawJson => raw_json(bytes, level),
        FieldType::SchemaOrBool(link) => schema_or_bool(bytes, link, level),
        FieldType::SchemaOrArray(link) => schema_or_array(bytes, link, level),
        FieldType::SchemaOrStrings(link) => schema_or_strings(bytes, link, level),
        FieldType::Shape(link) => wrapped(bytes, link.shape(), level),
        _ => unreachable!("plain values are no messages"),
    }
}

/// Several numbers in one value: a packed repeated field, as proto3 encoders write it.
pub(super) fn packed(bytes: &[u8], field: &Field, level: Level, items: &mut Vec<Tree>) -> Result<(), Error> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        items.push(scalar(&mut reader, &field.value_type, level)?);
    }
    Ok(())
}

/// The zero value of a type: that of a map entry without a value.
pub(super) fn zero(of: &FieldType) -> Tree {
    match of {
        FieldType::String | FieldType::Bytes => "".into(),
        FieldType::Bool => false.into(),
        FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString | FieldType::Double => 0.into(),
        FieldType::Quantity => "0".into(),
        FieldType::Duration => "0s".into(),
        FieldType::Shape(link) if link.shape().wrap => Tree::List(Vec::new()),
        FieldType::Shape(_) => Map::default().into(),
        _ => Tree::Null,
    }
}

fn double(bits: u64) -> Result<Tree, Error> {
    let number = f64::from_bits(bits);
    if number.is_finite() {
        Ok(Tree::Float(number))
    } else {
        Err(Error::Number(number))
    }
}

/// The numbers of a message whose fields 1 and 2 are numbers.
fn numbers(bytes: &[u8]) -> Result<[i64; 2], Error> {
    let mut numbers = [0; 2];
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, VARINT) => numbers[0] = reader.varint()? as i64,
            (2, VARINT) => numbers[1] = reader.varint()? as i64,
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(numbers)
}

/// A time. An empty message is the zero time, which is null in JSON. `Time` has whole seconds only.
fn time(bytes: &[u8], precision: Precision) -> Result<Tree, Error> {
    if bytes.is_empty() {
        return Ok(Tree::Null);
    }
    let [seconds, nanos] = numbers(bytes)?;
    let nanos = i64::from(nanos as i32);
    let (carry, nanos) = match precision {
        Precision::Seconds => (0, 0),
        Precision::Micros => (
            nanos.div_euclid(NANOS_PER_SECOND),
            nanos.rem_euclid(NANOS_PER_SECOND),
        ),
    };
    let form = from_unix(seconds.saturating_add(carry), (nanos / 1000) as u32, precision);
    form.map(Tree::Str).ok_or(Error::Time { seconds })
}

fn quantity(bytes: &[u8]) -> Result<Tree, Error> {
    let mut quantity = zero(&FieldType::Quantity);
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => {
                let amount = text(reader.delimited()?);
                check_quantity(&amount).map_err(Error::Quantity)?;
                quantity = Tree::Str(amount.into());
            }
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(quantity)
}

fn int_or_string(bytes: &[u8]) -> Result<Tree, Error> {
    let (mut is_string, mut number, mut word) = (false, 0, Tree::from(""));
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, VARINT) => is_string = reader.varint()? == 1,
            (2, VARINT) => number = reader.varint()? as i32,
            (3, DELIMITED) => word = Tree::Str(text(reader.delimited()?).into()),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(if is_string { word } else { number.into() })
}

/// Raw JSON is field 1, as it is. Without it the value is null.
fn raw_json(bytes: &[u8], level: Level) -> Result<Tree, Error> {
    let mut raw = &[][..];
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => raw = reader.delimited()?,
            _ => reader.skip(tag.wire)?,
        }
    }
    match raw {
        [] => Ok(Tree::Null),
        raw => Ok(json::parse_at_depth(raw, level.depth)?),
    }
}

/// `allows = 1`, `schema = 2`; a schema takes precedence.
fn schema_or_bool(bytes: &[u8], link: &ShapeRef, level: Level) -> Result<Tree, Error> {
    let (mut allows, mut schema) = (false, Tree::Null);
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, VARINT) => allows = reader.varint()? != 0,
            (2, DELIMITED) => schema = object(reader.delimited()?, link.shape(), level)?,
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(if schema.is_null() { allows.into() } else { schema })
}

/// `schema = 1`, `jSONSchemas = 2`; a list takes precedence.
fn schema_or_array(bytes: &[u8], link: &ShapeRef, level: Level) -> Result<Tree, Error> {
    let (mut schema, mut schemas) = (Tree::Null, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => schema = object(reader.delimited()?, link.shape(), level)?,
            (2, DELIMITED) => schemas.push(object(reader.delimited()?, link.shape(), level.deeper()?)?),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(if schemas.is_empty() {
        schema
    } else {
        schemas.into()
    })
}

/// `schema = 1`, `property = 2`; a list takes precedence.
fn schema_or_strings(bytes: &[u8], link: &ShapeRef, level: Level) -> Result<Tree, Error> {
    let (mut schema, mut words) = (Tree::Null, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.next()? {
        match (tag.number, tag.wire) {
            (1, DELIMITED) => schema = object(reader.delimited()?, link.shape(), level)?,
            (2, DELIMITED) => words.push(Tree::Str(text(reader.delimited()?).into())),
            _ => reader.skip(tag.wire)?,
        }
    }
    Ok(if words.is_empty() { schema } else { words.into() })
}

fn object(bytes: &[u8], shape: &Shape, level: Level) -> Result<Tree, Error> {
    let mut map = Map::default();
    message(bytes, shape, &mut map, level.deeper()?.fresh(true))?;
    Ok(map.into())
}

/// A message that only wraps a list; in JSON it is the list itself.
fn wrapped(bytes: &[u8], shape: &Shape, level: Level) -> Result<Tree, Error> {
    let mut map = Map::default();
    message(bytes, shape, &mut map, level.fresh(true))?;
    let items = map.into_iter().next().map(|(_, items)| items);
    Ok(items.unwrap_or_else(|| Tree::List(Vec::new())))
}
