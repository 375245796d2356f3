//! Maps with string keys. Functions that change a map change it for all that share it.

use std::collections::BTreeMap;

use super::super::Type::{Any, Map as Dict, String as Text};
use super::super::{Context, Row, row, variadic};
use super::cast::to_text;
use super::text::truth;
use crate::value::{Map, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    variadic("dict", &[Any], dict),
    row("get", &[Dict, Text], |_, args| {
        Ok(find(&args[0], args[1].as_str()).unwrap_or_else(|| Value::string("")))
    }),
    row("set", &[Dict, Text, Any], set),
    row("unset", &[Dict, Text], |_, args| {
        if let Some(map) = args[0].as_map() {
            map.remove(args[1].as_str());
        }
        Ok(args[0].value.clone())
    }),
    row("hasKey", &[Dict, Text], |_, args| {
        truth(find(&args[0], args[1].as_str()).is_some())
    }),
    variadic("pluck", &[Text, Dict], |_, args| {
        let values = args[1..].iter().filter_map(|arg| find(arg, args[0].as_str()));
        Ok(Value::list(values.collect()))
    }),
    variadic("keys", &[Dict], |_, args| {
        let keys = args.iter().flat_map(entries).map(|(key, _)| key);
        Ok(Value::strings(keys.collect::<Vec<_>>()))
    }),
    row("values", &[Dict], |_, args| {
        Ok(Value::list(
            entries(&args[0]).into_iter().map(|(_, value)| value).collect(),
        ))
    }),
    variadic("pick", &[Dict, Text], |_, args| Ok(filtered(args, true))),
    variadic("omit", &[Dict, Text], |_, args| Ok(filtered(args, false))),
    variadic("dig", &[Any], dig),
];

fn find(arg: &Operand, key: &str) -> Option<Value> {
    arg.as_map()?.find(key)
}

fn entries(arg: &Operand) -> Vec<(String, Value)> {
    arg.as_map().map(Map::entries).unwrap_or_default()
}

fn dict(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let mut entries = BTreeMap::new();
    for pair in args.chunks(2) {
        let value = pair
            .get(1)
            .map_or_else(|| Value::string(""), |arg| arg.value.clone());
        entries.insert(to_text(context, &pair[0].value)?, value);
    }
    Ok(Value::map(entries))
}

fn set(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    if let Some(map) = args[0].as_map() {
        map.insert(args[1].as_str(), args[2].value.clone(), context.budget())?;
    }
    Ok(args[0].value.clone())
}

/// The entries whose keys are among the arguments, or are not.
fn filtered(args: &[Operand], is_picked: bool) -> Value {
    let is_named = |key: &str| args[1..].iter().any(|arg| arg.as_str() == key);
    let entries = entries(&args[0]).into_iter();
    Value::map(entries.filter(|(key, _)| is_named(key) == is_picked).collect())
}

/// The value of a path of keys, or the default before the map.
fn dig(_: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let [path @ .., default, root] = args else {
        return Err("dig needs at least three arguments".to_owned());
    };
    if path.is_empty() {
        return Err("dig needs at least three arguments".to_owned());
    }
    let mut value = root.value.clone();
    as_map(&value)?;
    let keys: Vec<&str> = path
        .iter()
        .map(|key| as_key(&key.value))
        .collect::<Result<_, _>>()?;
    for key in keys {
        match as_map(&value)?.find(key) {
            Some(inner) => value = inner,
            None => return Ok(default.value.clone()),
        }
    }
    Ok(value)
}

fn as_map(value: &Value) -> Result<&Map, String> {
    match value {
        Value::Map(map) if value.type_name() == "map[string]interface {}" => Ok(map),
        _ => Err(conversion(value, "map[string]interface {}")),
    }
}

fn as_key(value: &Value) -> Result<&str, String> {
    match value {
        Value::String(key) => Ok(key),
        _ => Err(conversion(value, "string")),
    }
}

fn conversion(value: &Value, wanted: &str) -> String {
    let actual = value.type_name().trim_matches(['<', '>']);
    format!("interface conversion: interface {{}} is {actual}, not {wanted}")
}
