//! Rendering of templates: the values and functions that they may use.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value as Json;
use setpoint_kuttl::manifest;
use setpoint_template::{
    ElementType, Environment, Function, Functions, Map, MissingKey, Operand, Template, Type, Value,
};

/// What a template may use: facts of the instance and of the running step, parameters and pipes.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// `OperatorName`, `Name`, `Namespace` and the other names of a task.
    pub facts: BTreeMap<&'static str, String>,
    /// `Params`.
    pub parameters: BTreeMap<String, Json>,
    /// `Pipes`: the names of the objects that Pipe tasks create.
    pub pipes: BTreeMap<String, String>,
    /// The time that `now` returns.
    pub now: Option<Timestamp>,
}

/// Functions that would read the environment of the engine.
const REMOVED: &[&str] = &["env", "expandenv", "base", "dir", "clean", "ext", "isAbs"];

/// Renders a template. A key that does not exist is an error.
pub fn render(name: &str, text: &str, variables: &Variables) -> Result<String, String> {
    let template = Template::new(name)
        .with_functions(functions())
        .with_missing_key(MissingKey::Error)
        .parse(text)
        .map_err(|error| format!("error parsing template: {error}"))?;
    let environment = Environment {
        now: variables.now,
        ..Environment::default()
    };
    template
        .render(data(variables), &environment)
        .map_err(|error| format!("error rendering template: {error}"))
}

fn data(variables: &Variables) -> Value {
    let mut data: BTreeMap<String, Value> = variables
        .facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::string(value.as_str())))
        .collect();
    let parameters = variables.parameters.iter();
    let parameters = parameters.map(|(name, value)| (name.clone(), Value::from(value)));
    data.insert("Params".to_owned(), Value::map(parameters.collect()));
    let pipes = variables.pipes.iter();
    let pipes = pipes.map(|(key, name)| (key.clone(), Value::string(name.as_str())));
    data.insert(
        "Pipes".to_owned(),
        Value::Map(Map::new(ElementType::String, pipes.collect())),
    );
    Value::map(data)
}

fn functions() -> Functions {
    let functions =
        Functions::sprig().with("toYaml", Function::new(vec![Type::Any], |_, args| to_yaml(args)));
    REMOVED
        .iter()
        .fold(functions, |functions, name| functions.without(name))
}

/// YAML with the line break at its end, which Helm's function of the same name drops.
fn to_yaml(args: &[Operand]) -> Result<Value, String> {
    let json = to_json(&args[0].value)?;
    manifest::to_yaml(&json).map(Value::string)
}

fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) | Value::Int64(value) => (*value).into(),
        Value::Uint8(value) => (*value).into(),
        Value::Uint64(value) => (*value).into(),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => (*value as i64).into(),
        Value::Float(value) => (*value).into(),
        Value::String(text) => (&**text).into(),
        Value::List(list) => list.items().iter().map(to_json).collect::<Result<_, _>>()?,
        Value::Map(map) => {
            let entry = |(key, value): (String, Value)| Ok((key, to_json(&value)?));
            let entries: Result<serde_json::Map<_, _>, String> =
                map.entries().into_iter().map(entry).collect();
            entries?.into()
        }
        other => {
            return Err(format!(
                "error marshaling into JSON: unsupported type: {}",
                other.type_name()
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(template: &str, expected: Result<&str, &str>) {
        let variables = Variables {
            facts: [("Name", "db".to_owned()), ("Namespace", "ns".to_owned())].into(),
            parameters: [
                ("COUNT".to_owned(), json!("3")),
                ("LIST".to_owned(), json!(["a", 1])),
            ]
            .into(),
            pipes: [("cert".to_owned(), "db.cert".to_owned())].into(),
            now: None,
        };
        let rendered = render("t.yaml", template, &variables);
        assert_eq!(rendered.as_deref().map_err(String::as_str), expected);
    }

    /// TO7
    #[test]
    fn templates_see_names_parameters_and_pipes() {
        check(
            "{{ .Name }}.{{ .Namespace }} {{ .Params.COUNT }} {{ .Pipes.cert }}",
            Ok("db.ns 3 db.cert"),
        );
    }

    /// TO7
    #[test]
    fn yaml_ends_with_a_line_break() {
        check("{{ toYaml .Params.LIST }}", Ok("- a\n- 1\n"));
    }

    /// TO7
    #[test]
    fn a_missing_parameter_is_an_error() {
        check(
            "{{ .Params.nope }}",
            Err(
                "error rendering template: template: t.yaml:1:10: executing \"t.yaml\" at <.Params.nope>: map has no entry for key \"nope\"",
            ),
        );
    }

    /// TO7
    #[test]
    fn the_environment_cannot_be_read() {
        check(
            "{{ env \"HOME\" }}",
            Err("error parsing template: template: t.yaml:1: function \"env\" not defined"),
        );
    }
}
