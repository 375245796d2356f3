//! Defaults: `default`, `empty`, `coalesce`, `ternary` and others.

use super::super::Type::{Any, Bool};
use super::super::{Context, Row, row, variadic};
use super::text::truth;
use crate::value::{List, MAX_DEPTH, Map, Value};

pub(super) const ROWS: &[Row] = &[
    variadic("default", &[Any, Any], |_, args| {
        let given = args.get(1).filter(|given| !is_empty(&given.value));
        Ok(given.unwrap_or(&args[0]).value.clone())
    }),
    row("empty", &[Any], |_, args| truth(is_empty(&args[0].value))),
    variadic("coalesce", &[Any], |_, args| {
        let first = args.iter().find(|arg| !is_empty(&arg.value));
        Ok(first.map_or(Value::Nil, |arg| arg.value.clone()))
    }),
    variadic("all", &[Any], |_, args| {
        truth(args.iter().all(|arg| !is_empty(&arg.value)))
    }),
    variadic("any", &[Any], |_, args| {
        truth(args.iter().any(|arg| !is_empty(&arg.value)))
    }),
    row("ternary", &[Any, Any, Bool], |_, args| {
        let chosen = if args[2].value.is_true() {
            &args[0]
        } else {
            &args[1]
        };
        Ok(chosen.value.clone())
    }),
    row("deepCopy", &[Any], |context, args| {
        deep_copy(context, &args[0].value, 0)
    }),
    row("mustDeepCopy", &[Any], |context, args| {
        deep_copy(context, &args[0].value, 0)
    }),
];

/// Whether a value counts as absent: the zero value of its type, or without elements.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}

/// The value with maps of its own.
fn deep_copy(context: &Context<'_>, value: &Value, depth: usize) -> Result<Value, String> {
    context.charge(1)?;
    if depth > MAX_DEPTH {
        return Err(format!("cannot copy values deeper than {MAX_DEPTH} levels"));
    }
    Ok(match value {
        Value::List(list) if !value.is_nil() => {
            let items = list
                .items()
                .iter()
                .map(|item| deep_copy(context, item, depth + 1));
            Value::List(List::new(list.element(), items.collect::<Result<_, _>>()?))
        }
        Value::Map(map) if !value.is_nil() => {
            let entries = map.entries().into_iter();
            let entries = entries.map(|(key, value)| Ok((key, deep_copy(context, &value, depth + 1)?)));
            Value::Map(Map::new(map.element(), entries.collect::<Result<_, String>>()?))
        }
        _ => value.clone(),
    })
}
