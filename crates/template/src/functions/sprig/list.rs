//! Lists. The functions with `must` are the same here: both fail with the same message.

use super::super::Type::{Any, Int};
use super::super::{Context, Row, row, variadic};
use super::cast::{to_int64, to_text, to_texts};
use super::default::is_empty;
use super::text::truth;
use crate::value::{ElementType, List, Operand, Value, deep_equal};

pub(super) const ROWS: &[Row] = &[
    variadic("list", &[Any], list),
    variadic("tuple", &[Any], list),
    row("append", &[Any, Any], push),
    row("push", &[Any, Any], push),
    row("mustAppend", &[Any, Any], push),
    row("mustPush", &[Any, Any], push),
    row("prepend", &[Any, Any], prepend),
    row("mustPrepend", &[Any, Any], prepend),
    row("first", &[Any], first),
    row("mustFirst", &[Any], first),
    row("last", &[Any], last),
    row("mustLast", &[Any], last),
    row("rest", &[Any], rest),
    row("mustRest", &[Any], rest),
    row("initial", &[Any], initial),
    row("mustInitial", &[Any], initial),
    row("reverse", &[Any], reverse),
    row("mustReverse", &[Any], reverse),
    row("compact", &[Any], compact),
    row("mustCompact", &[Any], compact),
    row("uniq", &[Any], uniq),
    row("mustUniq", &[Any], uniq),
    variadic("without", &[Any, Any], without),
    variadic("mustWithout", &[Any, Any], without),
    row("has", &[Any, Any], has),
    row("mustHas", &[Any, Any], has),
    variadic("slice", &[Any, Any], slice),
    variadic("mustSlice", &[Any, Any], slice),
    variadic("concat", &[Any], concat),
    row("chunk", &[Int, Any], chunk),
    row("mustChunk", &[Int, Any], chunk),
    row("sortAlpha", &[Any], sort_alpha),
];

pub(super) const NIL_DEREFERENCE: &str = "runtime error: invalid memory address or nil pointer dereference";

/// The list of an argument; the error begins with what the function cannot do.
fn items<'a>(arg: &'a Operand, problem: &str) -> Result<&'a List, String> {
    match &arg.value {
        Value::List(list) => Ok(list),
        Value::Nil => Err(NIL_DEREFERENCE.to_owned()),
        value => Err(format!("{problem} {}", value.kind_name())),
    }
}

fn list(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    Ok(Value::list(args.iter().map(|arg| arg.value.clone()).collect()))
}

fn push(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut items = items(&args[0], "Cannot push on type")?.items().to_vec();
    context.charge(items.len())?;
    items.push(args[1].value.clone());
    Ok(Value::list(items))
}

fn prepend(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot prepend on type")?.items();
    context.charge(items.len())?;
    let first = std::iter::once(args[1].value.clone());
    Ok(Value::list(first.chain(items.iter().cloned()).collect()))
}

fn first(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot find first on type")?.items();
    Ok(items.first().cloned().unwrap_or_default())
}

fn last(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot find last on type")?.items();
    Ok(items.last().cloned().unwrap_or_default())
}

fn rest(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot find rest on type")?.items();
    Ok(match items.split_first() {
        Some((_, rest)) => Value::list(rest.to_vec()),
        None => Value::List(List::nil(ElementType::Any)),
    })
}

fn initial(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot find initial on type")?.items();
    Ok(match items.split_last() {
        Some((_, initial)) => Value::list(initial.to_vec()),
        None => Value::List(List::nil(ElementType::Any)),
    })
}

fn reverse(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot find reverse on type")?.items();
    Ok(Value::list(items.iter().rev().cloned().collect()))
}

fn compact(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[0], "Cannot compact on type")?.items();
    Ok(Value::list(
        items.iter().filter(|item| !is_empty(item)).cloned().collect(),
    ))
}

fn contains<'v>(
    context: &Context<'_>,
    mut values: impl Iterator<Item = &'v Value>,
    wanted: &Value,
) -> Result<bool, String> {
    values.try_fold(false, |is_in, value| {
        Ok(is_in || deep_equal(wanted, value, context.budget())?)
    })
}

fn uniq(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut unique: Vec<Value> = Vec::new();
    for item in items(&args[0], "Cannot find uniq on type")?.items() {
        if !contains(context, unique.iter(), item)? {
            unique.push(item.clone());
        }
    }
    Ok(Value::list(unique))
}

fn without(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut left = Vec::new();
    for item in items(&args[0], "Cannot find without on type")?.items() {
        if !contains(context, args[1..].iter().map(|arg| &arg.value), item)? {
            left.push(item.clone());
        }
    }
    Ok(Value::list(left))
}

fn has(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    if let Value::Nil = args[1].value {
        return truth(false);
    }
    let items = items(&args[1], "Cannot find has on type")?.items();
    truth(contains(context, items.iter(), &args[0].value)?)
}

fn slice(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let list = items(&args[0], "list should be type of slice or array but")?;
    let length = list.items().len();
    if length == 0 {
        return Ok(Value::Nil);
    }
    let bound = |i: usize, default| args.get(i).map_or(default, |arg| to_int64(&arg.value));
    let (start, end) = (bound(1, 0), bound(2, length as i64));
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let part = range.and_then(|(start, end)| list.items().get(start..end));
    let part = part.ok_or("reflect.Value.Slice: slice index out of bounds")?;
    Ok(Value::List(List::new(list.element(), part.to_vec())))
}

fn concat(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut all = Vec::new();
    for arg in args {
        let items = match &arg.value {
            Value::List(list) => list.items(),
            Value::Nil => return Err(NIL_DEREFERENCE.to_owned()),
            value => return Err(format!("Cannot concat type {} as list", value.kind_name())),
        };
        context.charge(items.len())?;
        all.extend(items.iter().cloned());
    }
    Ok(match all.is_empty() {
        true => Value::List(List::nil(ElementType::Any)),
        false => Value::list(all),
    })
}

fn chunk(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let items = items(&args[1], "Cannot chunk type")?.items();
    let size = usize::try_from(args[0].as_int()).ok().filter(|size| *size > 0);
    let size = size.ok_or("runtime error: makeslice: len out of range")?;
    let chunks = items.chunks(size).map(|chunk| Value::list(chunk.to_vec()));
    Ok(Value::List(List::new(ElementType::List, chunks.collect())))
}

fn sort_alpha(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut texts = match &args[0].value {
        Value::Nil => vec![to_text(context, &Value::Nil)?],
        value => to_texts(context, value)?,
    };
    texts.sort();
    Ok(Value::strings(texts))
}
