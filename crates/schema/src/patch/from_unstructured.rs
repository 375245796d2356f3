//! Type check of a strategically merged object, as by the reference server's `FromUnstructured`.
//!
//! The reference server converts the merged object by another code path than a request body, so its errors for a wrong
//! type differ from those of pruning: `cannot restore slice from map`. Fields are checked in the order of the shape and
//! the first error is reported. Types with their own `UnmarshalJSON` (times, quantities and the like) are left to
//! pruning.

use super::go_text::{go_kind, go_type};
use crate::shape::{Cardinality, Field, FieldType, Shape, last_two};
use crate::tree::Tree;

/// Finds the first value of a wrong type. A float without a fraction becomes an integer where one is expected.
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
        (_, Tree::Null)
        | (FieldType::String, Tree::Str(_))
        | (FieldType::Bool, Tree::Bool(_))
        | (FieldType::Bytes, Tree::Str(_)) => Ok(()),
        (FieldType::Int32 | FieldType::Int64 | FieldType::Double, Tree::Int(_))
        | (FieldType::Double, Tree::Float(_)) => Ok(()),
        (FieldType::Int32 | FieldType::Int64, Tree::Float(number)) if *number == number.trunc() => {
            *value = Tree::Int(*number as i64);
            Ok(())
        }
        (FieldType::String, Tree::Int(_)) | (FieldType::Int32 | FieldType::Int64, Tree::Float(_)) => Err(
            format!("cannot convert {} to {}", go_type(value), type_name(field)),
        ),
        (FieldType::String, _) => Err("unrecognized type: string".to_owned()),
        (FieldType::Bool | FieldType::Int32 | FieldType::Int64 | FieldType::Double, _) => {
            Err(format!("unrecognized type: {}", type_name(field)))
        }
        (FieldType::Bytes, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (FieldType::Shape(reference), _) => check(reference.shape(), value),
        _ => Ok(()),
    }
}

/// The Go name of a scalar type.
fn type_name(field: &Field) -> &str {
    match &field.value_type {
        FieldType::Bool => "bool",
        FieldType::Int32 => "int32",
        FieldType::Int64 => "int64",
        FieldType::Double => "float64",
        _ => field.enum_name().map_or("string", last_two),
    }
}
