//! `index`, `slice` and `len`.

use crate::functions::Context;
use crate::value::{ElementType, List, Map, Operand, Value};

/// The element of nested lists, strings and maps.
pub(super) fn index(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut item = args[0].value.clone();
    if matches!(item, Value::Nil) {
        return Err("index of untyped nil".to_owned());
    }
    for (i, index) in args[1..].iter().enumerate() {
        item = match &item {
            Value::Nil if i > 0 => return Err("index of nil pointer".to_owned()),
            Value::List(list) => {
                let at = position(&Operand::new(index.value.clone()), list.items().len())?;
                list.items()
                    .get(at)
                    .cloned()
                    .ok_or("reflect: slice index out of range")?
            }
            Value::String(text) => {
                let at = position(&Operand::new(index.value.clone()), text.len())?;
                let byte = text
                    .as_bytes()
                    .get(at)
                    .ok_or("reflect: string index out of range")?;
                Value::Uint8(*byte)
            }
            Value::Map(map) => entry(map, &index.value)?,
            _ => return Err(format!("can't index item of type {}", item.type_name())),
        };
    }
    Ok(item)
}

fn entry(map: &Map, key: &Value) -> Result<Value, String> {
    match key {
        Value::String(key) => Ok(map.find(key).unwrap_or_else(|| match map.element() {
            ElementType::String => Value::string(""),
            _ => Value::Nil,
        })),
        Value::Nil => Err("value is nil; should be of type string".to_owned()),
        _ => Err(format!("value has type {}; should be string", key.type_name())),
    }
}

/// An index up to and including the given length.
fn position(index: &Operand, length: usize) -> Result<usize, String> {
    if !index.is_valid() {
        return Err("cannot index slice/array with nil".to_owned());
    }
    let number = index.value.as_integer().filter(|_| !index.is_interface);
    let Some(number) = number else {
        return Err(format!(
            "cannot index slice/array with type {}",
            index.static_type()
        ));
    };
    match usize::try_from(number) {
        Ok(at) if at <= length => Ok(at),
        _ => Err(format!("index out of range: {number}")),
    }
}

/// A part of a list or string.
pub(super) fn slice(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let item = &args[0].value;
    let indexes = &args[1..];
    if matches!(item, Value::Nil) {
        return Err("slice of untyped nil".to_owned());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()));
    }
    let length = match item {
        Value::String(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".to_owned()),
        Value::String(text) => text.len(),
        Value::List(list) => list.items().len(),
        _ => return Err(format!("can't slice item of type {}", item.type_name())),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [start, end, capacity] = bounds;
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}"));
    }
    if indexes.len() == 3 && end > capacity {
        return Err(format!("invalid slice index: {end} > {capacity}"));
    }
    Ok(match item {
        Value::List(list) => Value::List(List::new(list.element(), list.items()[start..end].to_vec())),
        Value::String(text) => {
            Value::string(String::from_utf8_lossy(&text.as_bytes()[start..end]).into_owned())
        }
        _ => Value::Nil,
    })
}

pub(super) fn len(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let length = match &args[0].value {
        Value::String(text) => text.len(),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        Value::Nil if args[0].is_interface => return Err("len of nil pointer".to_owned()),
        Value::Nil => return Err("reflect: call of reflect.Value.Type on zero Value".to_owned()),
        value => {
            return Err(format!(
                "len of type {}",
                value.type_name().trim_start_matches('*')
            ));
        }
    };
    Ok(Value::Int(length as i64))
}
