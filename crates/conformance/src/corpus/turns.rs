//! Writes by turns: the cases of `corpus/apply.yaml`, where several managers apply, update and patch one object.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::steps::{APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, delete, get, namespace, patch, post, send};
use crate::transcript::{Case, Step};

const FILE: &str = include_str!("../../corpus/apply.yaml");

/// How long a definition may take until it is served.
const PATIENCE_MS: u64 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Book {
    kinds: BTreeMap<String, Kind>,
    cases: BTreeMap<String, BTreeMap<String, Vec<Turn>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// The collection's path.
    at: String,
    /// An object to begin with, without a name.
    object: Value,
    /// What defines the kind, if it is a custom one.
    #[serde(default)]
    definition: Option<Value>,
}

/// What is done, by whom and how, and the body; the last two where there are any.
#[derive(Debug, Deserialize)]
struct Turn(
    String,
    #[serde(default)] String,
    #[serde(default = "nothing")] Value,
);

fn nothing() -> Value {
    json!({})
}

/// Who does something and how: `name`, `!` by force, `@` in another version, `/part`, `?` more to the query.
#[derive(Debug, Default, PartialEq, Eq)]
struct By<'a> {
    name: &'a str,
    force: bool,
    version: Option<&'a str>,
    part: &'a str,
    query: &'a str,
}

pub(super) fn cases(namespace: &str) -> Vec<Case> {
    let text = FILE.replace("{ns}", namespace);
    let book: Book = serde_saphyr::from_str(&text).expect("the corpus in the source tree is well formed");
    let mut cases = Vec::new();
    for (kind, own) in &book.cases {
        for (name, turns) in own {
            cases.push(case(namespace, (kind, &book.kinds[kind]), name, turns));
        }
    }
    cases
}

fn case(run: &str, (name, kind): (&str, &Kind), case: &str, turns: &[Turn]) -> Case {
    let object = format!("{run}-{name}-{case}").to_lowercase();
    let steps = turns.iter().enumerate();
    let path = format!("{}/{object}", kind.at);
    Case {
        id: format!("turns.{name}.{case}"),
        area: "turns".to_owned(),
        setup: setup(kind),
        steps: steps.map(|(at, turn)| step(kind, &object, turn, at)).collect(),
        cleanup: vec![
            patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})),
            delete(&format!("{path}?gracePeriodSeconds=0")),
        ],
    }
}

fn setup(kind: &Kind) -> Vec<Step> {
    let mut setup = namespace(&kind.at);
    if let Some(definition) = &kind.definition {
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let served = Step {
            retry_ms: PATIENCE_MS,
            ..get(&kind.at)
        };
        let made = [post(definitions, definition), served];
        setup.extend(made.map(|step| Step { once: true, ..step }));
    }
    setup
}

fn step(kind: &Kind, name: &str, Turn(what, by, body): &Turn, at: usize) -> Step {
    let by = By::parse(by);
    let named = by.in_version(kind, name);
    let collection = by.collection(kind);
    let path = by.path(&format!("{collection}/{name}"));
    match what.as_str() {
        "get" => get(&path),
        "post" => post(&by.path(&collection), &over(&named, body)),
        "put" => {
            let mut whole = over(&named, body);
            let before = format!("{{{{steps.{}.rv}}}}", at.saturating_sub(1));
            whole["metadata"]["resourceVersion"] = before.into();
            send("PUT", &path, JSON, whole.to_string())
        }
        "whole" => patch(&path, APPLY, &over(&named, body)),
        "apply" => patch(&path, APPLY, &over(&names_of(&named), body)),
        "merge" => patch(&path, MERGE, body),
        "strategic" => patch(&path, STRATEGIC, body),
        "json" => patch(&path, JSON_PATCH, body),
        other => panic!("the corpus in the source tree knows no {other:?}"),
    }
}

/// What says which object it is.
fn names_of(object: &Value) -> Value {
    let field = |name: &str| object[name].clone();
    json!({"apiVersion": field("apiVersion"), "kind": field("kind"), "metadata": field("metadata")})
}

/// A document laid over another: maps are merged, everything else is replaced, null included.
fn over(below: &Value, above: &Value) -> Value {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            let mut merged: Map<String, Value> = below.clone();
            for (key, value) in above {
                let value = match below.get(key) {
                    Some(old) => over(old, value),
                    None => value.clone(),
                };
                merged.insert(key.clone(), value);
            }
            merged.into()
        }
        (_, above) => above.clone(),
    }
}

impl<'a> By<'a> {
    fn parse(text: &'a str) -> Self {
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (text, part) = text.split_once('/').unwrap_or((text, ""));
        let (text, version) = match text.split_once('@') {
            Some((text, version)) => (text, Some(version)),
            None => (text, None),
        };
        By {
            name: text.trim_end_matches('!'),
            force: text.ends_with('!'),
            version,
            part,
            query,
        }
    }

    /// The object to begin with, under its name, in the version that is meant.
    fn in_version(&self, kind: &Kind, name: &str) -> Value {
        let mut object = kind.object.clone();
        object["metadata"] = json!({"name": name});
        let group = object["apiVersion"].as_str().and_then(|own| own.split_once('/'));
        if let (Some(version), Some((group, _))) = (self.version, group) {
            object["apiVersion"] = format!("{group}/{version}").into();
        }
        object
    }

    fn collection(&self, kind: &Kind) -> String {
        let own = kind.object["apiVersion"].as_str().unwrap_or_default();
        match (self.version, own.split_once('/')) {
            (Some(version), Some((group, _))) => kind.at.replace(own, &format!("{group}/{version}")),
            _ => kind.at.clone(),
        }
    }

    fn path(&self, object: &str) -> String {
        let part = if self.part.is_empty() { "" } else { "/" };
        let mut query = Vec::new();
        if !self.name.is_empty() {
            query.push(format!("fieldManager={}", self.name));
        }
        if self.force {
            query.push("force=true".to_owned());
        }
        if !self.query.is_empty() {
            query.push(self.query.to_owned());
        }
        let question = if query.is_empty() { "" } else { "?" };
        format!("{object}{part}{}{question}{}", self.part, query.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_something_and_how_is_read_from_one_word() {
        let by = By::parse("a!@v2/status?dryRun=All");
        assert_eq!(
            by,
            By {
                name: "a",
                force: true,
                version: Some("v2"),
                part: "status",
                query: "dryRun=All"
            }
        );
        assert_eq!(by.path("/x"), "/x/status?fieldManager=a&force=true&dryRun=All");
        assert_eq!(By::parse("").path("/x"), "/x");
    }

    #[test]
    fn what_is_laid_over_wins_and_a_null_inside_stays() {
        let merged = over(
            &json!({"a": {"b": 1}, "c": 2}),
            &json!({"a": {"d": null}, "c": 3}),
        );
        assert_eq!(merged, json!({"a": {"b": 1, "d": null}, "c": 3}));
    }
}
