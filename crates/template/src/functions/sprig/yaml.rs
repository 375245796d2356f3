//! YAML, as Helm's `toYaml` and `fromYaml` have it: block style, keys sorted, text quoted where it must be.

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
    let parsed: Result<serde_json::Value, String> =
        serde_saphyr::from_str(source).map_err(|error| error.to_string());
    let value = match parsed {
        Ok(json) => match (&json, is_list) {
            (serde_json::Value::Null, false) => Ok(Value::map(Default::default())),
            (serde_json::Value::Null, true) => Ok(Value::list(Vec::new())),
            (serde_json::Value::Object(_), false) | (serde_json::Value::Array(_), true) => {
                Ok(Value::from_json(&json, NumberType::Float64))
            }
            _ => Err("the YAML text has another type".to_owned()),
        },
        Err(error) => Err(error),
    };
    value.unwrap_or_else(|error| match is_list {
        true => Value::list(vec![Value::string(error)]),
        false => Value::map([("Error".to_owned(), Value::string(error))].into()),
    })
}
