//! Comparison: `eq`, `ne`, `lt`, `le`, `gt`, `ge`. Values of different basic kinds cannot be compared.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::format;
use crate::functions::Context;
use crate::value::{Operand, Value};

/// The kinds that can be compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BasicKind {
    Bool,
    Complex,
    Int,
    Float,
    String,
    Uint,
}

const BAD_TYPE: &str = "invalid type for comparison";

fn basic_kind(value: &Value) -> Option<BasicKind> {
    Some(match value {
        Value::Bool(_) => BasicKind::Bool,
        Value::Int(_) | Value::Int64(_) => BasicKind::Int,
        Value::Uint8(_) | Value::Uint64(_) => BasicKind::Uint,
        Value::Float(_) => BasicKind::Float,
        Value::Complex(..) => BasicKind::Complex,
        Value::String(_) => BasicKind::String,
        _ => return None,
    })
}

/// Whether the first argument equals one of the others.
pub(super) fn eq(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    if args.len() < 2 {
        return Err("missing argument for comparison".to_owned());
    }
    for arg in &args[1..] {
        if equal(context, &args[0].value, &arg.value)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

pub(super) fn ne(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    Ok(Value::Bool(!equal(context, &args[0].value, &args[1].value)?))
}

pub(super) fn lt(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    Ok(Value::Bool(order(args)? == Some(Ordering::Less)))
}

pub(super) fn le(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let order = order(args)?;
    Ok(Value::Bool(matches!(
        order,
        Some(Ordering::Less | Ordering::Equal)
    )))
}

pub(super) fn gt(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    match le(context, args)? {
        Value::Bool(is_less) => Ok(Value::Bool(!is_less)),
        value => Ok(value),
    }
}

pub(super) fn ge(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    Ok(Value::Bool(order(args)? != Some(Ordering::Less)))
}

fn incompatible(a: &Value, b: &Value) -> String {
    format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    )
}

fn is_integer(kind: BasicKind) -> bool {
    matches!(kind, BasicKind::Int | BasicKind::Uint)
}

fn equal(context: &Context<'_>, a: &Value, b: &Value) -> Result<bool, String> {
    let is_nil = |value: &Value| matches!(value, Value::Nil);
    match (basic_kind(a), basic_kind(b)) {
        (None, None) => equal_references(context, a, b),
        (Some(x), Some(y)) if x == y || (is_integer(x) && is_integer(y)) => Ok(match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Complex(a, b), Value::Complex(c, d)) => (a, b) == (c, d),
            (Value::String(a), Value::String(b)) => a == b,
            _ => a.as_integer() == b.as_integer(),
        }),
        _ if is_nil(a) || is_nil(b) => Ok(false),
        _ => Err(incompatible(a, b)),
    }
}

/// Equality of values that have no basic kind: nil, or the same object.
fn equal_references(context: &Context<'_>, a: &Value, b: &Value) -> Result<bool, String> {
    let text = |value: &Value, verb| format::print_verb(value, verb, context.budget());
    let is_untyped = |value: &Value| matches!(value, Value::Nil);
    if a.kind_name() != b.kind_name() && !is_untyped(a) && !is_untyped(b) {
        return Err(format!(
            "non-comparable types {}: {}, {}: {}",
            text(a, 's')?,
            a.type_name(),
            b.type_name(),
            text(b, 'v')?
        ));
    }
    if a.is_nil() || b.is_nil() {
        return Ok(a.is_nil() == b.is_nil());
    }
    match (a, b) {
        (Value::Time(a), Value::Time(b)) => Ok(a == b),
        (Value::Version(a), Value::Version(b)) => Ok(Rc::ptr_eq(a, b)),
        _ => Err(format!(
            "non-comparable type {}: {}",
            text(b, 's')?,
            b.type_name()
        )),
    }
}

fn order(args: &[Operand]) -> Result<Option<Ordering>, String> {
    let (a, b) = (&args[0].value, &args[1].value);
    let x = basic_kind(a).ok_or(BAD_TYPE)?;
    let y = basic_kind(b).ok_or(BAD_TYPE)?;
    if x != y && !(is_integer(x) && is_integer(y)) {
        return Err(incompatible(a, b));
    }
    match (a, b) {
        (Value::Bool(_), _) | (Value::Complex(..), _) => Err(BAD_TYPE.to_owned()),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b)),
        (Value::String(a), Value::String(b)) => Ok(Some(a.cmp(b))),
        _ => Ok(Some(a.as_integer().cmp(&b.as_integer()))),
    }
}
