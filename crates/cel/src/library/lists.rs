//! Lists and sets.

use std::cmp::Ordering;

use regex::Regex;

use super::{Builtin, no_such_overload};
use crate::ast::operator;
use crate::macros::SORT_BY_KEYS;
use crate::value::{List, Value};

pub(super) const FUNCTIONS: &[(&str, Builtin)] = &[
    ("isSorted", is_sorted),
    ("sum", sum),
    ("max", |args, _| extreme(args, "max", Ordering::is_gt)),
    ("min", |args, _| extreme(args, "min", Ordering::is_lt)),
    ("slice", slice),
    ("flatten", flatten),
    ("sort", sort),
    (SORT_BY_KEYS, sort_by_keys),
    ("lists.range", range),
    ("reverse", reverse),
    ("distinct", distinct),
    ("sets.contains", |args, _| {
        sets(args, |own, other| contains_all(own, other))
    }),
    ("sets.equivalent", |args, _| {
        sets(args, |own, other| {
            contains_all(own, other) && contains_all(other, own)
        })
    }),
    ("sets.intersects", |args, _| {
        sets(args, |own, other| own.iter().any(|item| contains(other, &item)))
    }),
];

/// The longest list that `lists.range` makes.
const MAX_RANGE: i64 = 1_000_000;

type Outcome<'a> = Result<Value<'a>, String>;

fn contains(list: &List<'_>, item: &Value<'_>) -> bool {
    list.iter().any(|one| one.equals(item))
}

fn contains_all(own: &List<'_>, other: &List<'_>) -> bool {
    other.iter().all(|item| contains(own, &item))
}

fn sets<'a>(args: &[Value<'a>], run: impl FnOnce(&List<'a>, &List<'a>) -> bool) -> Outcome<'a> {
    match args {
        [Value::List(own), Value::List(other)] => Ok(Value::Bool(run(own, other))),
        _ => no_such_overload(),
    }
}

pub(super) fn position_of<'a>(list: &List<'_>, item: &Value<'_>) -> Value<'a> {
    index(list.iter().position(|one| one.equals(item)))
}

pub(super) fn last_position_of<'a>(list: &List<'_>, item: &Value<'_>) -> Value<'a> {
    let found = (0..list.len())
        .rev()
        .find(|at| list.get(*at).is_some_and(|one| one.equals(item)));
    index(found)
}

fn index<'a>(position: Option<usize>) -> Value<'a> {
    Value::Int(position.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)))
}

fn only_list<'b, 'a>(args: &'b [Value<'a>]) -> Result<&'b List<'a>, String> {
    match args {
        [Value::List(list)] => Ok(list),
        _ => no_such_overload(),
    }
}

fn is_sorted<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let items = only_list(args)?.to_vec();
    for pair in items.windows(2) {
        if pair[0].compare(&pair[1])?.is_gt() {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: &[Value<'a>], regex: Option<&Regex>) -> Outcome<'a> {
    let list = only_list(args)?;
    let Some((_, add)) = super::find(operator::ADD) else {
        return no_such_overload();
    };
    let mut items = list.iter();
    let Some(mut total) = items.next() else {
        return Ok(Value::Int(0));
    };
    for item in items {
        total = add(&[total, item], regex)?;
    }
    Ok(total)
}

fn extreme<'a>(args: &[Value<'a>], name: &str, is_better: impl Fn(Ordering) -> bool) -> Outcome<'a> {
    let list = only_list(args)?;
    let mut items = list.iter();
    let mut best = items
        .next()
        .ok_or_else(|| format!("{name} called on empty list"))?;
    for item in items {
        if is_better(item.compare(&best)?) {
            best = item;
        }
    }
    Ok(best)
}

fn slice<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return no_such_overload();
    };
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(format!(
            "cannot slice({start}, {end}), negative indexes not supported"
        ));
    };
    if from > to {
        return Err(format!(
            "cannot slice({start}, {end}), start index must be less than or equal to end index"
        ));
    }
    if to > list.len() {
        return Err(format!(
            "cannot slice({start}, {end}), list is length {}",
            list.len()
        ));
    }
    Ok(Value::list((from..to).filter_map(|at| list.get(at)).collect()))
}

fn flatten<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return no_such_overload(),
    };
    if depth < 0 {
        return Err("level must be non-negative".to_owned());
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat);
    Ok(Value::list(flat))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, flat: &mut Vec<Value<'a>>) {
    for item in list.iter() {
        match item {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat),
            item => flat.push(item),
        }
    }
}

fn sort<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let items = only_list(args)?.to_vec();
    let keys = items.clone();
    sorted(items, &keys)
}

fn sort_by_keys<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::List(list), Value::List(keys)] => sorted(list.to_vec(), &keys.to_vec()),
        _ => no_such_overload(),
    }
}

/// The items in the order of their keys, which must be comparable. Equal ones keep their order.
fn sorted<'a>(items: Vec<Value<'a>>, keys: &[Value<'a>]) -> Outcome<'a> {
    if items.len() != keys.len() {
        return Err(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements respectively",
            items.len(),
            keys.len()
        ));
    }
    let mut failed = None;
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|left, right| {
        keys[*left].compare(&keys[*right]).unwrap_or_else(|_| {
            failed = Some("list elements must have the same type".to_owned());
            Ordering::Equal
        })
    });
    match failed {
        Some(why) => Err(why),
        None => Ok(Value::list(
            order.into_iter().map(|at| items[at].clone()).collect(),
        )),
    }
}

fn range<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    match args {
        [Value::Int(size)] if *size < 0 => Err(format!("lists.range: size must be non-negative, got {size}")),
        [Value::Int(size)] if *size > MAX_RANGE => Err(format!(
            "lists.range: size {size} exceeds maximum allowed ({MAX_RANGE})"
        )),
        [Value::Int(size)] => Ok(Value::list((0..*size).map(Value::Int).collect())),
        _ => no_such_overload(),
    }
}

fn reverse<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let mut items = only_list(args)?.to_vec();
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(args: &[Value<'a>], _: Option<&Regex>) -> Outcome<'a> {
    let mut found: Vec<Value<'a>> = Vec::new();
    for item in only_list(args)?.iter() {
        if !found.iter().any(|one| one.equals(&item)) {
            found.push(item);
        }
    }
    Ok(Value::list(found))
}
