//! From a step to a request: earlier answers fill in what only they know.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::case::{BodyFrom, Step};
use crate::wire::Request;

const OPEN: &str = "{{steps.";
const CLOSE: &str = "}}";

/// The request of a step after these answers.
pub(super) fn request(step: &Step, answers: &[Value]) -> Result<Request> {
    let mut request = Request::new(&step.method, &expand(&step.path, answers)?);
    for (name, value) in &step.headers {
        let value = expand(value.as_str().unwrap_or_default(), answers)?;
        request = request.header(name, &value);
    }
    request.body = body(step, answers)?.map(String::into_bytes);
    request.caller = step.caller();
    Ok(request)
}

fn body(step: &Step, answers: &[Value]) -> Result<Option<String>> {
    if let Some(long) = &step.body_gen {
        let text = long.prefix.clone() + &long.repeat.repeat(long.count) + &long.suffix;
        return Ok(Some(text));
    }
    if let Some(from) = &step.body_from {
        return expand(&changed(from, answers)?.to_string(), answers).map(Some);
    }
    step.body.as_ref().map(|body| expand(body, answers)).transpose()
}

fn changed(from: &BodyFrom, answers: &[Value]) -> Result<Value> {
    let mut document = answer(answers, from.step)?.clone();
    for (path, value) in &from.set {
        set(&mut document, path, value.clone())?;
    }
    for path in &from.del {
        delete(&mut document, path)?;
    }
    Ok(document)
}

/// Replaces each `{{steps.N.path}}` by what stands there in the answer of step N.
fn expand(text: &str, answers: &[Value]) -> Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (inside, after) = after.split_once(CLOSE).context("a template without its end")?;
        let (step, path) = inside.split_once('.').context("a template without a path")?;
        expanded.push_str(before);
        expanded.push_str(&find(answer(answers, step.parse()?)?, path));
        rest = after;
    }
    Ok(expanded + rest)
}

fn answer(answers: &[Value], step: usize) -> Result<&Value> {
    answers
        .get(step)
        .with_context(|| format!("there is no answer of step {step} yet"))
}

fn find(document: &Value, path: &str) -> String {
    let path = match path {
        "body" => return document.to_string(),
        "rv" => "metadata.resourceVersion",
        "uid" => "metadata.uid",
        "name" => "metadata.name",
        "continue" => "metadata.continue",
        other => other,
    };
    let found = path.split('.').try_fold(document, |value, word| match value {
        Value::Array(items) => items.get(word.parse::<usize>().ok()?),
        other => other.get(word),
    });
    match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// Puts a value at a JSON pointer, making objects on the way where there is nothing.
pub(super) fn set(document: &mut Value, pointer: &str, value: Value) -> Result<()> {
    let (parent, last) = parent(document, pointer)?;
    match parent {
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => *item(items, &last)? = value,
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        other => bail!("{pointer:?} leads into {other}"),
    }
    Ok(())
}

fn delete(document: &mut Value, pointer: &str) -> Result<()> {
    let (parent, last) = parent(document, pointer)?;
    match parent {
        Value::Array(items) => {
            let index: usize = last.parse()?;
            ensure!(index < items.len(), "{pointer:?} leads nowhere");
            items.remove(index);
        }
        Value::Object(fields) => {
            fields.shift_remove(&last);
        }
        other => bail!("{pointer:?} leads into {other}"),
    }
    Ok(())
}

/// What holds the last word of a pointer, and that word.
fn parent<'a>(document: &'a mut Value, pointer: &str) -> Result<(&'a mut Value, String)> {
    let mut words: Vec<String> = pointer
        .trim_start_matches('/')
        .split('/')
        .map(|word| word.replace("~1", "/").replace("~0", "~"))
        .collect();
    let last = words.pop().context("a pointer has a last word")?;
    let mut value = document;
    for word in words {
        value = match value {
            Value::Array(items) => item(items, &word)?,
            Value::Object(fields) => {
                let field = fields
                    .entry(word)
                    .or_insert_with(|| Value::Object(Default::default()));
                if !field.is_object() && !field.is_array() {
                    *field = Value::Object(Default::default());
                }
                field
            }
            other => bail!("{pointer:?} leads into {other}"),
        };
    }
    Ok((value, last))
}

fn item<'a>(items: &'a mut [Value], word: &str) -> Result<&'a mut Value> {
    let index: usize = word.parse()?;
    items
        .get_mut(index)
        .with_context(|| format!("there is no item {index}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let answers = [json!({"metadata": {"resourceVersion": "7", "uid": "u"}, "items": [{"n": 5}]})];
        assert_eq!(expand(text, &answers).unwrap(), expected);
    }

    #[test]
    fn templates_are_filled_in_from_answers() {
        check("?rv={{steps.0.rv}}&x={{steps.0.items.0.n}}", "?rv=7&x=5");
        check("{{steps.0.uid}}{{steps.0.absent.path}}", "u");
        assert!(expand("{{steps.3.rv}}", &[]).is_err());
    }

    #[test]
    fn a_body_is_an_answer_changed() {
        let from = BodyFrom {
            step: 0,
            set: vec![
                ("/a/b~1c/d".into(), json!(1)),
                ("/l/-".into(), json!(2)),
                ("/l/0".into(), json!(9)),
            ],
            del: vec!["/x".into()],
        };
        let answers = [json!({"x": 1, "l": [0]})];
        assert_eq!(
            changed(&from, &answers).unwrap(),
            json!({"l": [9, 2], "a": {"b/c": {"d": 1}}})
        );
    }
}
