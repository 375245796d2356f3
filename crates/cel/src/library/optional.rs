//! Optional values.

use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::value::Value;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("optional.of", of),
    ("optional.ofNonZeroValue", of_non_zero),
    ("optional.none", |_, _| Ok(Value::NONE)),
    ("value", value),
    ("hasValue", has_value),
    ("optional.unwrap", unwrap),
    ("unwrapOpt", unwrap),
    ("first", |args, _| item(args, |length| (length > 0).then_some(0))),
    ("last", |args, _| item(args, |length| length.checked_sub(1))),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn of<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [value] => Ok(Value::some(value.clone())),
        _ => no_such_overload(),
    }
}

fn of_non_zero<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [value] if value.is_zero() => Ok(Value::NONE),
        [value] => Ok(Value::some(value.clone())),
        _ => no_such_overload(),
    }
}

fn value<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err("optional.none() dereference".to_owned()),
        _ => no_such_overload(),
    }
}

fn has_value<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => no_such_overload(),
    }
}

fn unwrap<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let [Value::List(list)] = args else {
        return no_such_overload();
    };
    let mut values = Vec::new();
    for item in list.iter() {
        match item {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            _ => return no_such_overload(),
        }
    }
    Ok(Value::list(values))
}

fn item<'a>(args: &[Value<'a>], position: impl Fn(usize) -> Option<usize>) -> Outcome<'a> {
    match args {
        [Value::List(list)] => {
            let found = position(list.len()).and_then(|at| list.get(at));
            Ok(found.map_or(Value::NONE, Value::some))
        }
        _ => no_such_overload(),
    }
}
