//! Requests of steps, with values from earlier responses filled in.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::case::{BodyFrom, Step};
use crate::wire::Request;

const OPEN: &str = "{{steps.";
const CLOSE: &str = "}}";

/// The request of a step, given the responses to earlier steps.
pub(super) fn request(step: &Step, responses: &[Value]) -> Result<Request> {
    let mut request = Request::new(&step.method, &expand(&step.path, responses)?);
    for (name, value) in &step.headers {
        let value = expand(value.as_str().unwrap_or_default(), responses)?;
        request = request.header(name, &value);
    }
    request.body = body(step, responses)?.map(String::into_bytes);
    request.caller = step.caller();
    Ok(request)
}

fn body(step: &Step, responses: &[Value]) -> Result<Option<String>> {
    if let Some(generator) = &step.body_gen {
        let text = generator.prefix.clone() + &generator.repeat.repeat(generator.count) + &generator.suffix;
        return Ok(Some(text));
    }
    if let Some(from) = &step.body_from {
        return expand(&changed(from, responses)?.to_string(), responses).map(Some);
    }
    step.body.as_ref().map(|body| expand(body, responses)).transpose()
}

fn changed(from: &BodyFrom, responses: &[Value]) -> Result<Value> {
    let mut object = response(responses, from.step)?.clone();
    for (path, value) in &from.set {
        set(&mut object, path, value.clone())?;
    }
    for path in &from.del {
        delete(&mut object, path)?;
    }
    Ok(object)
}

/// Replaces each `{{steps.N.path}}` by the value at that path in the response to step N.
fn expand(text: &str, responses: &[Value]) -> Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (inside, after) = after
            .split_once(CLOSE)
            .context("a template has no closing braces")?;
        let (step, path) = inside.split_once('.').context("a template has no path")?;
        expanded.push_str(before);
        expanded.push_str(&find(response(responses, step.parse()?)?, path));
        rest = after;
    }
    Ok(expanded + rest)
}

fn response(responses: &[Value], step: usize) -> Result<&Value> {
    responses
        .get(step)
        .with_context(|| format!("step {step} has no response yet"))
}

fn find(object: &Value, path: &str) -> String {
    let path = match path {
        "body" => return object.to_string(),
        "rv" => "metadata.resourceVersion",
        "uid" => "metadata.uid",
        "name" => "metadata.name",
        "continue" => "metadata.continue",
        other => other,
    };
    let value = path.split('.').try_fold(object, |value, segment| match value {
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        other => other.get(segment),
    });
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Sets the value at a JSON pointer, creating missing objects on the way.
pub(super) fn set(object: &mut Value, pointer: &str, value: Value) -> Result<()> {
    let (parent, last) = parent(object, pointer)?;
    match parent {
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => *item(items, &last)? = value,
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        other => bail!("{pointer:?} points into {other}"),
    }
    Ok(())
}

fn delete(object: &mut Value, pointer: &str) -> Result<()> {
    let (parent, last) = parent(object, pointer)?;
    match parent {
        Value::Array(items) => {
            let index: usize = last.parse()?;
            ensure!(index < items.len(), "{pointer:?} does not exist");
            items.remove(index);
        }
        Value::Object(fields) => {
            fields.shift_remove(&last);
        }
        other => bail!("{pointer:?} points into {other}"),
    }
    Ok(())
}

/// The parent of the value at a pointer, and the pointer's last segment.
fn parent<'a>(object: &'a mut Value, pointer: &str) -> Result<(&'a mut Value, String)> {
    let mut segments: Vec<String> = pointer
        .trim_start_matches('/')
        .split('/')
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = segments.pop().context("the pointer is empty")?;
    let mut value = object;
    for segment in segments {
        value = match value {
            Value::Array(items) => item(items, &segment)?,
            Value::Object(fields) => {
                let field = fields
                    .entry(segment)
                    .or_insert_with(|| Value::Object(Default::default()));
                if !field.is_object() && !field.is_array() {
                    *field = Value::Object(Default::default());
                }
                field
            }
            other => bail!("{pointer:?} points into {other}"),
        };
    }
    Ok((value, last))
}

fn item<'a>(items: &'a mut [Value], segment: &str) -> Result<&'a mut Value> {
    let index: usize = segment.parse()?;
    items
        .get_mut(index)
        .with_context(|| format!("item {index} does not exist"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let responses = [json!({"metadata": {"resourceVersion": "7", "uid": "u"}, "items": [{"n": 5}]})];
        assert_eq!(expand(text, &responses).unwrap(), expected);
    }

    #[test]
    fn templates_are_expanded_from_responses() {
        check("?rv={{steps.0.rv}}&x={{steps.0.items.0.n}}", "?rv=7&x=5");
        check("{{steps.0.uid}}{{steps.0.absent.path}}", "u");
        assert!(expand("{{steps.3.rv}}", &[]).is_err());
    }

    #[test]
    fn a_body_is_a_changed_response() {
        let from = BodyFrom {
            step: 0,
            set: vec![
                ("/a/b~1c/d".into(), json!(1)),
                ("/l/-".into(), json!(2)),
                ("/l/0".into(), json!(9)),
            ],
            del: vec!["/x".into()],
        };
        let responses = [json!({"x": 1, "l": [0]})];
        assert_eq!(
            changed(&from, &responses).unwrap(),
            json!({"l": [9, 2], "a": {"b/c": {"d": 1}}})
        );
    }
}
