//! Whether a strategically merged document still is of its shape.
//!
//! The reference server turns the merged document into a typed object by another way than a body it receives, so its
//! words for a wrong type differ from the pruner's: `cannot restore slice from map`. Fields are looked at in the order
//! of the shape and the first wrong one is named. Types that read themselves (times, quantities and the like) are left
//! to the pruner.

use super::go_text::{go_kind, go_type};
use crate::shape::{Card, Field, Of, Shape, last_two};
use crate::tree::Tree;

/// Finds the first value of a wrong type. A whole number written as a fraction becomes one where one is wanted.
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
    match (field.card, value) {
        (_, Tree::Null) => Ok(()),
        (Card::One, value) => check_value(field, value),
        (Card::List, Tree::List(items)) => check_each(field, items.iter_mut()),
        (Card::Map, Tree::Map(map)) => check_each(field, map.iter_mut().map(|(_, value)| value)),
        (Card::List, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (Card::Map, other) => Err(format!("cannot restore map from {}", go_kind(other))),
    }
}

fn check_each<'t>(field: &Field, values: impl Iterator<Item = &'t mut Tree>) -> Result<(), String> {
    for value in values {
        check_value(field, value)?;
    }
    Ok(())
}

fn check_value(field: &Field, value: &mut Tree) -> Result<(), String> {
    match (&field.of, &mut *value) {
        (_, Tree::Null)
        | (Of::String, Tree::Str(_))
        | (Of::Bool, Tree::Bool(_))
        | (Of::Bytes, Tree::Str(_)) => Ok(()),
        (Of::Int32 | Of::Int64 | Of::Double, Tree::Int(_)) | (Of::Double, Tree::Float(_)) => Ok(()),
        (Of::Int32 | Of::Int64, Tree::Float(number)) if *number == number.trunc() => {
            *value = Tree::Int(*number as i64);
            Ok(())
        }
        (Of::String, Tree::Int(_)) | (Of::Int32 | Of::Int64, Tree::Float(_)) => Err(format!(
            "cannot convert {} to {}",
            go_type(value),
            type_name(field)
        )),
        (Of::String, _) => Err("unrecognized type: string".to_owned()),
        (Of::Bool | Of::Int32 | Of::Int64 | Of::Double, _) => {
            Err(format!("unrecognized type: {}", type_name(field)))
        }
        (Of::Bytes, other) => Err(format!("cannot restore slice from {}", go_kind(other))),
        (Of::Shape(link), _) => check(link.shape(), value),
        _ => Ok(()),
    }
}

/// The name of a scalar type, as the reference server calls it.
fn type_name(field: &Field) -> &str {
    match &field.of {
        Of::Bool => "bool",
        Of::Int32 => "int32",
        Of::Int64 => "int64",
        Of::Double => "float64",
        _ => field.enumeration().map_or("string", last_two),
    }
}
