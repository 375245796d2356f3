//! Values of parameters: their conversion between text and YAML, and their validation.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_kuttl::manifest;

use crate::api::{Instance, OperatorVersion, Parameter, ParameterType};

/// The value that templates see: YAML for lists and maps, else the text.
pub fn unwrap_value(text: &str, value_type: Option<ParameterType>) -> Result<Value, String> {
    match value_type {
        Some(ParameterType::Map) => manifest::parse_value(text),
        Some(ParameterType::Array) => match manifest::parse_value(text)? {
            value @ (Value::Array(_) | Value::Null) => Ok(value),
            _ => Err("error unmarshaling JSON: the value is not a list".to_owned()),
        },
        _ => Ok(text.into()),
    }
}

/// The text of a value of a package or a parameter file: YAML for lists and maps. `None` for an absent value.
pub fn wrap_value(value: &Value, value_type: Option<ParameterType>) -> Result<Option<String>, String> {
    match value_type {
        Some(ParameterType::Map | ParameterType::Array) => manifest::to_yaml(value).map(Some),
        _ => Ok(match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }),
    }
}

/// The values of all parameters, for templates.
pub fn values(instance: &Instance, version: &OperatorVersion) -> Result<BTreeMap<String, Value>, String> {
    let value = |parameter: &Parameter| {
        let text = instance
            .spec
            .parameters
            .get(&parameter.name)
            .or(parameter.default.as_ref());
        let value = unwrap_value(text.map_or("", String::as_str), parameter.value_type)?;
        Ok((parameter.name.clone(), value))
    };
    version.spec.parameters.iter().map(value).collect()
}

/// Checks the values of an Instance.
pub fn validate(version: &OperatorVersion, instance: &Instance) -> Result<(), String> {
    for parameter in &version.spec.parameters {
        let value = instance.spec.parameters.get(&parameter.name);
        validate_value(parameter, value.map_or("", String::as_str))?;
    }
    Ok(())
}

/// Checks a value; the empty text is an absent value.
pub fn validate_value(parameter: &Parameter, value: &str) -> Result<(), String> {
    let name = &parameter.name;
    if parameter.is_required() && parameter.default.is_none() && value.is_empty() {
        return Err(format!("parameter {name:?} is required but has no value set"));
    }
    if value.is_empty() {
        return Ok(());
    }
    let invalid = |reason: String| format!("parameter {name:?} has an invalid value {value:?}: {reason}");
    if let Some(value_type) = parameter.value_type {
        check_type(value_type, value).map_err(invalid)?;
    }
    match &parameter.allowed {
        Some(allowed) if !allowed.iter().any(|own| own == value) => {
            let allowed = allowed.join(" ");
            Err(invalid(format!(
                "value is {value:?}, but only allowed values are [{allowed}]"
            )))
        }
        _ => Ok(()),
    }
}

/// Checks that a text is a value of this type.
pub fn check_type(value_type: ParameterType, text: &str) -> Result<(), String> {
    let name = value_type.as_str();
    let parse_error = |function: &str| {
        format!(
            "type is {name:?} but format of {text:?} is invalid: strconv.{function}: parsing {text:?}: invalid syntax"
        )
    };
    match value_type {
        ParameterType::String => Ok(()),
        ParameterType::Integer => text.parse::<i64>().map(drop).map_err(|_| parse_error("ParseInt")),
        ParameterType::Number => text
            .parse::<f64>()
            .map(drop)
            .map_err(|_| parse_error("ParseFloat")),
        ParameterType::Boolean => parse_bool(text).map(drop).ok_or_else(|| parse_error("ParseBool")),
        ParameterType::Array | ParameterType::Map => {
            let is_array = value_type == ParameterType::Array;
            match manifest::parse_value(text) {
                Ok(Value::Array(_)) if is_array => Ok(()),
                Ok(Value::Object(_)) if !is_array => Ok(()),
                Ok(Value::Null) => Ok(()),
                _ => Err(format!("type is {name:?}, but format of {text} is invalid")),
            }
        }
    }
}

/// A truth value as Go's `strconv.ParseBool` reads it.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The values of a parameter file: a YAML map. Lists and maps become YAML text.
pub fn parse_file(name: &str, text: &str) -> Result<BTreeMap<String, String>, String> {
    let parsed = manifest::parse_value(text);
    let parsed =
        parsed.map_err(|error| format!("error unmarshalling content of parameter file {name}: {error}"))?;
    let entries = match parsed {
        Value::Object(entries) => entries,
        Value::Null => serde_json::Map::new(),
        _ => {
            return Err(format!(
                "error unmarshalling content of parameter file {name}: it is not a map"
            ));
        }
    };
    let (mut values, mut errors) = (BTreeMap::new(), Vec::new());
    for (key, value) in entries {
        let value_type = match value {
            Value::Object(_) => ParameterType::Map,
            Value::Array(_) => ParameterType::Array,
            _ => ParameterType::String,
        };
        match wrap_value(&value, Some(value_type)) {
            Ok(Some(text)) => drop(values.insert(key, text)),
            Ok(None) => errors.push(format!("{key} has a null value (https://yaml.org/spec/1.2/spec.html#id2803362) which is currently not supported")),
            Err(error) => errors.push(format!("{key}: {error}")),
        }
    }
    match errors.is_empty() {
        true => Ok(values),
        false => Err(format!(
            "errors while unmarshaling following keys of the parameter file {name}: {}",
            errors.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parameter: &str, value: &str, expected: Result<(), &str>) {
        let parameter = manifest::parse_value(parameter).unwrap();
        let parameter: Parameter = serde_json::from_value(parameter).unwrap();
        let outcome = validate_value(&parameter, value);
        assert_eq!(outcome.as_ref().copied().map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn a_value_has_the_type_of_its_parameter() {
        check("{name: A, value-type: integer}", "3", Ok(()));
        check(
            "{name: A, value-type: integer}",
            "x",
            Err(
                "parameter \"A\" has an invalid value \"x\": type is \"integer\" but format of \"x\" is invalid: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
        );
        check("{name: A, value-type: number}", "1.5", Ok(()));
        check("{name: A, value-type: boolean}", "T", Ok(()));
        check("{name: A, value-type: array}", "- a\n- b", Ok(()));
        check("{name: A, value-type: map}", "a: b", Ok(()));
        check(
            "{name: A, value-type: map}",
            "- a",
            Err(
                "parameter \"A\" has an invalid value \"- a\": type is \"map\", but format of - a is invalid",
            ),
        );
    }

    /// TO7
    #[test]
    fn a_required_parameter_without_default_needs_a_value() {
        check(
            "{name: A, required: true}",
            "",
            Err("parameter \"A\" is required but has no value set"),
        );
        check("{name: A, required: true, default: x}", "", Ok(()));
        check("{name: A}", "", Ok(()));
    }

    /// TO7
    #[test]
    fn a_value_is_one_of_the_allowed_ones() {
        check("{name: A, enum: [a, b]}", "b", Ok(()));
        check(
            "{name: A, enum: [a, b]}",
            "c",
            Err(
                "parameter \"A\" has an invalid value \"c\": value is \"c\", but only allowed values are [a b]",
            ),
        );
    }

    #[test]
    fn values_of_a_parameter_file_are_text() {
        let values = parse_file("p", "a: 1\nb: [x]\nc: {d: e}\nf: true\n").unwrap();
        let expected = [("a", "1"), ("b", "- x\n"), ("c", "d: e\n"), ("f", "true")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(values, expected.into());
        let error = parse_file("p", "a: null\n").unwrap_err();
        assert!(
            error.starts_with(
                "errors while unmarshaling following keys of the parameter file p: a has a null"
            )
        );
    }
}
