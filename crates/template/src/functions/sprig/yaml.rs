//! YAML, as Helm's `toYaml` and `fromYaml` have it: block style, keys sorted, text quoted where it must be.

use serde_json::Value as Json;
use setpoint_codec::{from_tree, yaml};

use super::super::Type::{Any, String as Text};
use super::super::{Context, Row, row};
use super::text::text;
use super::yaml_writer::to_yaml;
use crate::value::{NumberType, Operand, Value};

pub(super) const ROWS: &[Row] = &[
    row("toYaml", &[Any], write),
    row("mustToYaml", &[Any], write),
    row("fromYaml", &[Text], |_, args| {
        Ok(from_yaml(args[0].as_str(), false))
    }),
    row("fromYamlArray", &[Text], |_, args| {
        Ok(from_yaml(args[0].as_str(), true))
    }),
];

fn write(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    text(to_yaml(context, &args[0].value)?)
}

/// The map or list of a YAML text. An error is its only entry, as in Helm.
fn from_yaml(source: &str, is_list: bool) -> Value {
    let value = match (parse(source), is_list) {
        (Ok(Json::Null), false) => Ok(Value::map(Default::default())),
        (Ok(Json::Null), true) => Ok(Value::list(Vec::new())),
        (Ok(json @ Json::Object(_)), false) | (Ok(json @ Json::Array(_)), true) => {
            Ok(Value::from_json(&json, NumberType::Float64))
        }
        (Ok(json), _) => Err(type_error(&json, is_list)),
        (Err(error), _) => Err(format!("error converting YAML to JSON: {error}")),
    };
    value.unwrap_or_else(|error| match is_list {
        true => Value::list(vec![Value::string(error)]),
        false => Value::map([("Error".to_owned(), Value::string(error))].into()),
    })
}

fn parse(source: &str) -> Result<Json, String> {
    let tree = yaml::parse(source.as_bytes()).map_err(|error| error.to_string())?;
    from_tree(&tree).map_err(|error| error.to_string())
}

/// Go's error for a value of another type.
fn type_error(json: &Json, is_list: bool) -> String {
    let actual = match json {
        Json::Array(_) => "array",
        Json::Bool(_) => "bool",
        Json::Null => "null",
        Json::Number(_) => "number",
        Json::Object(_) => "object",
        Json::String(_) => "string",
    };
    let expected = match is_list {
        true => "[]interface {}",
        false => "map[string]interface {}",
    };
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {actual} into Go value of type {expected}"
    )
}
