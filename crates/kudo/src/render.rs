//! Rendering of templates: the values and functions that they may use.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value as Json;
use setpoint_kuttl::manifest;
use setpoint_template::{
    Context, ElementType, Environment, Function, Functions, Map, MissingKey, Operand, Template, Type, Value,
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
    let functions = Functions::sprig().with("toYaml", Function::new(vec![Type::Any], to_yaml));
    REMOVED
        .iter()
        .fold(functions, |functions, name| functions.without(name))
}

/// The deepest value that `toYaml` prints: a loop of a template can nest values without limit.
const MAX_DEPTH: usize = 100;

/// YAML with the line break at its end, which Helm's function of the same name drops.
fn to_yaml(context: &Context<'_>, args: &[Operand]) -> Result<Value, String> {
    let json = to_json(context, &args[0].value, 0)?;
    manifest::to_yaml(&json).map(Value::string)
}

/// Each value and each byte of a text is a step: a value that is in a list many times is printed as often.
fn to_json(context: &Context<'_>, value: &Value, depth: usize) -> Result<Json, String> {
    if depth > MAX_DEPTH {
        return Err(format!(
            "error marshaling into JSON: the value is nested more than {MAX_DEPTH} times"
        ));
    }
    context.charge(1)?;
    Ok(match value {
        Value::Nil => Json::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) | Value::Int64(value) => (*value).into(),
        Value::Uint8(value) => (*value).into(),
        Value::Uint64(value) => (*value).into(),
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => (*value as i64).into(),
        Value::Float(value) => (*value).into(),
        Value::String(text) => {
            context.charge(text.len())?;
            (&**text).into()
        }
        Value::List(list) => {
            let items = list.items().iter().map(|item| to_json(context, item, depth + 1));
            items.collect::<Result<_, _>>()?
        }
        Value::Map(map) => {
            let entry = |(key, value): (String, Value)| {
                context.charge(key.len())?;
                Ok((key, to_json(context, &value, depth + 1)?))
            };
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

    /// Without limits, the first would overflow the stack and the second use all memory.
    #[test]
    fn a_value_that_is_too_deep_or_too_large_is_an_error() {
        let is_error = |template: &str, expected: &str| {
            let error = render("t.yaml", template, &Variables::default()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        is_error(
            "{{ $v := list }}{{ range until 20000 }}{{ $v = list $v }}{{ end }}{{ toYaml $v }}",
            "nested more than 100 times",
        );
        is_error(
            "{{ $v := list 1 }}{{ range until 40 }}{{ $v = list $v $v }}{{ end }}{{ toYaml $v }}",
            "exceeded the limit",
        );
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
