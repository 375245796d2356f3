//! Type check of a strategically merged object, as by the reference server's `FromUnstructured`.
//!
//! The reference server converts the merged object by another code path than a request body, so its errors for a wrong
//! type differ from those of pruning: `cannot restore slice from map`. Fields are checked in the order of the shape and
//! the first error is reported. The errors of types with their own `UnmarshalJSON` (times, quantities and the like) do not
//! name the field.

use super::go_text::{go_kind, go_type};
use crate::prune::{check_base64, check_quantity, scalar_type};
use crate::shape::{Cardinality, Field, FieldType, Shape};
use crate::time::{self, Precision};
use crate::tree::Tree;

/// Finds the first value of a wrong type. A float without a fraction becomes an integer where one is expected, and an
/// integer that does not fit is truncated, as by a conversion in Go.
pub(super) fn check(shape: &Shape, tree: &mut Tree) -> Result<(), String> {
    match tree {
        Tree::Null => Ok(()),
        Tree::List(items) if shape.wrap => {
            let element = shape
                .fields
                .first()
                .expect("a wrapper has its list as the only field");
            check_each(element, items.iter_mut())
        }
        Tree::Map(_) => check_members(shape, tree),
        other => Err(format!("cannot restore struct from: {}", go_kind(other))),
    }
}

fn check_members(shape: &Shape, tree: &mut Tree) -> Result<(), String> {
    for member in shape.members() {
        if let Some(value) = tree.get_mut(&member.name) {
            check_field(member, value)?;
        }
    }
    Ok(())
}

fn check_field(field: &Field, value: &mut Tree) -> Result<(), String> {
    match (field.cardinality, value) {
        (_, Tree::Null) => Ok(()),
        (Cardinality::One, value) => check_value(field, value),
        (Cardinality::List, Tree::List(items)) => check_each(field, items.iter_mut()),
        (Cardinality::Map, Tree::Map(map)) => check_each(field, map.iter_mut().map(|(_, value)| value)),
        (Cardinality::List, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (Cardinality::Map, other) => Err(format!("cannot restore map from {}", go_kind(other))),
    }
}

fn check_each<'t>(field: &Field, values: impl Iterator<Item = &'t mut Tree>) -> Result<(), String> {
    for value in values {
        check_value(field, value)?;
    }
    Ok(())
}

fn check_value(field: &Field, value: &mut Tree) -> Result<(), String> {
    match (&field.value_type, &mut *value) {
        (_, Tree::Null) | (FieldType::String, Tree::Str(_)) | (FieldType::Bool, Tree::Bool(_)) => Ok(()),
        (FieldType::Bytes, Tree::Str(text)) => {
            check_base64(text).map_err(|why| format!("error decoding from json: {why}"))
        }
        (FieldType::Bytes, Tree::List(items)) => match items.iter().all(is_number) {
            true => Ok(()),
            false => Err("unrecognized type: uint8".to_owned()),
        },
        (FieldType::Int64 | FieldType::Double, Tree::Int(_)) | (FieldType::Double, Tree::Float(_)) => Ok(()),
        (FieldType::Int32, Tree::Int(number)) => {
            *value = Tree::Int(i64::from(*number as i32));
            Ok(())
        }
        (FieldType::Int32 | FieldType::Int64, Tree::Float(number)) if *number == number.trunc() => {
            *value = Tree::Int(*number as i64);
            Ok(())
        }
        (FieldType::String, Tree::Int(_)) | (FieldType::Int32 | FieldType::Int64, Tree::Float(_)) => Err(
            format!("cannot convert {} to {}", go_type(value), scalar_type(field)),
        ),
        (FieldType::String, _) => Err("unrecognized type: string".to_owned()),
        (FieldType::Bool | FieldType::Int32 | FieldType::Int64 | FieldType::Double, _) => {
            Err(format!("unrecognized type: {}", scalar_type(field)))
        }
        (FieldType::Bytes, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (FieldType::Time | FieldType::MicroTime, other) if !matches!(other, Tree::Str(_)) => Err(format!(
            "json: cannot unmarshal {} into Go value of type string",
            other.type_name()
        )),
        (FieldType::Time, Tree::Str(text)) => time::to_unix(text, Precision::Seconds).map(drop),
        (FieldType::MicroTime, Tree::Str(text)) => time::to_unix(text, Precision::Micros).map(drop),
        (FieldType::Quantity, other) => check_quantity_value(other),
        (FieldType::IntOrString, other) => check_int_or_string(other),
        (FieldType::Shape(reference), _) => check(reference.shape(), value),
        _ => Ok(()),
    }
}

fn is_number(value: &Tree) -> bool {
    matches!(value, Tree::Null | Tree::Int(_) | Tree::Float(_))
}

/// The errors of the type's own `UnmarshalJSON`, which does not know the field.
fn check_int_or_string(value: &Tree) -> Result<(), String> {
    let found = match value {
        Tree::Str(_) => return Ok(()),
        Tree::Int(number) if i32::try_from(*number).is_ok() => return Ok(()),
        Tree::Int(number) => format!("number {number}"),
        Tree::Float(number) => format!("number {number}"),
        other => other.type_name().to_owned(),
    };
    Err(format!(
        "json: cannot unmarshal {found} into Go value of type int32"
    ))
}

/// A quantity is read from its JSON, whatever that is.
fn check_quantity_value(value: &Tree) -> Result<(), String> {
    let checked = match value {
        Tree::Str(text) => check_quantity(text.trim()),
        Tree::Int(_) | Tree::Float(_) => Ok(()),
        _ => check_quantity(""),
    };
    checked.map_err(str::to_owned)
}
