//! `merge` and `mergeOverwrite`: deep merging into the first map, by the rules of `dario.cat/mergo`.

use super::super::Type::Map as Dict;
use super::super::{Context, Row, variadic};
use super::default::is_empty;
use crate::value::{MAX_DEPTH, Map, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    variadic("merge", &[Dict, Dict], |context, args| {
        merge_all(context, args, false)
    }),
    variadic("mustMerge", &[Dict, Dict], |context, args| {
        merge_all(context, args, false)
    }),
    variadic("mergeOverwrite", &[Dict, Dict], |context, args| {
        merge_all(context, args, true)
    }),
    variadic("mustMergeOverwrite", &[Dict, Dict], |context, args| {
        merge_all(context, args, true)
    }),
];

fn merge_all(context: &Context<'_>, args: &[Operand], overwrites: bool) -> Result<Value, String> {
    let mut target = args[0].value.clone();
    if target.is_nil() {
        target = Value::map(std::collections::BTreeMap::new());
    }
    let Value::Map(map) = &target else {
        return Ok(target);
    };
    for source in args[1..].iter().filter_map(Operand::as_map) {
        merge((context, overwrites), map, source, 0)?;
    }
    Ok(target)
}

/// Adds the entries of the source that the target lacks or has empty; with `overwrites`, all of them.
fn merge(
    (context, overwrites): (&Context<'_>, bool),
    target: &Map,
    source: &Map,
    depth: usize,
) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("cannot merge values deeper than {MAX_DEPTH} levels"));
    }
    for (key, value) in source.entries() {
        context.charge(1)?;
        let current = target.find(&key);
        match (&current, &value) {
            (_, Value::Nil) => {
                if overwrites {
                    target.insert(&key, Value::Nil, context.budget())?;
                }
                continue;
            }
            (Some(Value::Map(inner)), Value::Map(from)) if !inner.is_empty() => {
                merge((context, overwrites), inner, from, depth + 1)?;
                continue;
            }
            _ => {}
        }
        if overwrites || current.as_ref().is_none_or(is_empty) {
            target.insert(&key, value, context.budget())?;
        }
    }
    Ok(())
}
