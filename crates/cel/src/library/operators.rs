//! Arithmetic, comparison, membership and size.

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::ast::operator;
use crate::macros::MAP_INSERT;
use crate::value::{List, Map, Value, has_same_keys};
use crate::value_schema::ListSemantics;

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    (operator::NOT, not),
    (operator::NEGATE, negate),
    (operator::EQUALS, equals),
    (operator::NOT_EQUALS, not_equals),
    (operator::LESS, |args, _| compare(args, Ordering::is_lt)),
    (operator::LESS_EQUALS, |args, _| compare(args, Ordering::is_le)),
    (operator::GREATER, |args, _| compare(args, Ordering::is_gt)),
    (operator::GREATER_EQUALS, |args, _| compare(args, Ordering::is_ge)),
    (operator::ADD, add),
    (operator::SUBTRACT, subtract),
    (operator::MULTIPLY, multiply),
    (operator::DIVIDE, divide),
    (operator::MODULO, modulo),
    (operator::IN, contains),
    (MAP_INSERT, map_insert),
    ("size", size),
];

type Outcome<'a> = Result<Value<'a>, String>;

fn not<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => no_such_overload(),
    }
}

fn negate<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(number)] => int(number.checked_neg()),
        [Value::Double(number)] => Ok(Value::Double(-number)),
        _ => no_such_overload(),
    }
}

fn equals<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [own, other] => Ok(Value::Bool(own.equals(other))),
        _ => no_such_overload(),
    }
}

fn not_equals<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [own, other] => Ok(Value::Bool(!own.equals(other))),
        _ => no_such_overload(),
    }
}

fn compare<'a>(args: &[Value<'a>], is_true: impl Fn(Ordering) -> bool) -> Outcome<'a> {
    match args {
        [own, other] => Ok(Value::Bool(is_true(own.compare(other)?))),
        _ => no_such_overload(),
    }
}

fn int<'a>(result: Option<i64>) -> Outcome<'a> {
    result
        .map(Value::Int)
        .ok_or_else(|| "integer overflow".to_owned())
}

fn uint<'a>(result: Option<u64>) -> Outcome<'a> {
    result
        .map(Value::Uint)
        .ok_or_else(|| "unsigned integer overflow".to_owned())
}

fn duration<'a>(result: Option<SignedDuration>) -> Outcome<'a> {
    // Durations are 64-bit nanoseconds.
    let fits = |duration: &SignedDuration| i64::try_from(duration.as_nanos()).is_ok();
    result
        .filter(fits)
        .map(Value::Duration)
        .ok_or_else(|| "integer overflow".to_owned())
}

fn timestamp<'a>(result: Result<Timestamp, jiff::Error>) -> Outcome<'a> {
    result
        .map(Value::Timestamp)
        .map_err(|_| "timestamp overflow".to_owned())
}

fn add<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(own), Value::Int(other)] => int(own.checked_add(*other)),
        [Value::Uint(own), Value::Uint(other)] => uint(own.checked_add(*other)),
        [Value::Double(own), Value::Double(other)] => Ok(Value::Double(own + other)),
        [Value::String(own), Value::String(other)] => {
            Ok(Value::string([own.as_str(), other.as_str()].concat()))
        }
        [Value::Bytes(own), Value::Bytes(other)] => Ok(Value::Bytes(Arc::from([&own[..], other].concat()))),
        [Value::Duration(own), Value::Duration(other)] => duration(own.checked_add(*other)),
        [Value::Timestamp(at), Value::Duration(by)] | [Value::Duration(by), Value::Timestamp(at)] => {
            timestamp(at.checked_add(*by))
        }
        [Value::List(own), Value::List(other)] => add_lists(own, other),
        _ => no_such_overload(),
    }
}

/// Concatenates. A set keeps its elements and adds those that it lacks; the items of a map list replace those with the
/// same keys.
fn add_lists<'a>(own: &List<'a>, other: &List<'a>) -> Outcome<'a> {
    let mut items = match own.semantics() {
        None => return Ok(Value::List(own.concat(other)?)),
        Some(_) => own.to_vec(),
    };
    for item in other.iter() {
        let same = |one: &Value<'a>| match own.semantics() {
            Some(ListSemantics::Map(keys)) => has_same_keys(one, &item, keys),
            _ => one.equals(&item),
        };
        match items.iter().position(same) {
            Some(at) => items[at] = item,
            None => items.push(item),
        }
    }
    Ok(Value::list(items))
}

fn subtract<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(own), Value::Int(other)] => int(own.checked_sub(*other)),
        [Value::Uint(own), Value::Uint(other)] => uint(own.checked_sub(*other)),
        [Value::Double(own), Value::Double(other)] => Ok(Value::Double(own - other)),
        [Value::Duration(own), Value::Duration(other)] => duration(own.checked_sub(*other)),
        [Value::Timestamp(at), Value::Duration(by)] => timestamp(at.checked_sub(*by)),
        [Value::Timestamp(own), Value::Timestamp(other)] => duration(Some(own.duration_since(*other))),
        _ => no_such_overload(),
    }
}

fn multiply<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(own), Value::Int(other)] => int(own.checked_mul(*other)),
        [Value::Uint(own), Value::Uint(other)] => uint(own.checked_mul(*other)),
        [Value::Double(own), Value::Double(other)] => Ok(Value::Double(own * other)),
        _ => no_such_overload(),
    }
}

fn divide<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err("division by zero".to_owned())
        }
        [Value::Int(own), Value::Int(other)] => int(own.checked_div(*other)),
        [Value::Uint(own), Value::Uint(other)] => uint(own.checked_div(*other)),
        [Value::Double(own), Value::Double(other)] => Ok(Value::Double(own / other)),
        _ => no_such_overload(),
    }
}

fn modulo<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err("modulus by zero".to_owned())
        }
        [Value::Int(own), Value::Int(other)] => int(own.checked_rem(*other)),
        [Value::Uint(own), Value::Uint(other)] => uint(own.checked_rem(*other)),
        _ => no_such_overload(),
    }
}

fn contains<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [item, Value::List(list)] => Ok(Value::Bool(list.iter().any(|one| one.equals(item)))),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key).is_some())),
        _ => no_such_overload(),
    }
}

fn map_insert<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (map, added) = match args {
        [Value::Map(map), key, value] => (map, vec![(key.clone(), value.clone())]),
        [Value::Map(map), Value::Map(other)] => (map, other.entries()),
        _ => return no_such_overload(),
    };
    let mut entries = map.to_entries();
    for (key, value) in added {
        entries.insert(key, value)?;
    }
    Ok(Value::Map(Map::Entries(Arc::new(entries))))
}

fn size<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [value] => match value.size() {
            Some(size) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => no_such_overload(),
        },
        _ => no_such_overload(),
    }
}
