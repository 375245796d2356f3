//! Writes of several field managers: the cases of `corpus/apply.yaml`, which apply, update and patch one object.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::steps::{APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, delete, get, namespace, patch, post, send};
use crate::transcript::{Case, Step};

const FILE: &str = include_str!("../../corpus/apply.yaml");

/// How long a CustomResourceDefinition may take until it is served.
const ESTABLISH_TIMEOUT_MS: u64 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApplyCases {
    kinds: BTreeMap<String, Kind>,
    cases: BTreeMap<String, BTreeMap<String, Vec<ManagerWrite>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    /// The collection's path.
    at: String,
    /// The initial object, without a name.
    object: Value,
    /// The CustomResourceDefinition of a custom kind.
    #[serde(default)]
    crd: Option<Value>,
}

/// The verb, the writer, and the body; writer and body are optional.
#[derive(Debug, Deserialize)]
struct ManagerWrite(
    String,
    #[serde(default)] String,
    #[serde(default = "empty_object")] Value,
);

fn empty_object() -> Value {
    json!({})
}

/// The field manager and options of a write: `name`, `!` for force, `@` a version, `/` a subresource, `?` more query.
#[derive(Debug, Default, PartialEq, Eq)]
struct Writer<'a> {
    name: &'a str,
    force: bool,
    version: Option<&'a str>,
    subresource: &'a str,
    query: &'a str,
}

pub(super) fn cases(namespace: &str) -> Vec<Case> {
    let text = FILE.replace("{ns}", namespace);
    let file: ApplyCases = serde_saphyr::from_str(&text).expect("the corpus in the source tree is valid");
    let mut cases = Vec::new();
    for (kind, own) in &file.cases {
        for (name, writes) in own {
            cases.push(case(namespace, (kind, &file.kinds[kind]), name, writes));
        }
    }
    cases
}

fn case(run: &str, (name, kind): (&str, &Kind), case: &str, writes: &[ManagerWrite]) -> Case {
    let object = format!("{run}-{name}-{case}").to_lowercase();
    let steps = writes.iter().enumerate();
    let path = format!("{}/{object}", kind.at);
    Case {
        id: format!("writes.{name}.{case}"),
        area: "writes".to_owned(),
        setup: setup(kind),
        steps: steps.map(|(at, write)| step(kind, &object, write, at)).collect(),
        cleanup: vec![
            patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})),
            delete(&format!("{path}?gracePeriodSeconds=0")),
        ],
    }
}

fn setup(kind: &Kind) -> Vec<Step> {
    let mut setup = namespace(&kind.at);
    if let Some(crd) = &kind.crd {
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let served = Step {
            retry_ms: ESTABLISH_TIMEOUT_MS,
            ..get(&kind.at)
        };
        let made = [post(crds, crd), served];
        setup.extend(made.map(|step| Step { once: true, ..step }));
    }
    setup
}

fn step(kind: &Kind, name: &str, ManagerWrite(verb, writer, body): &ManagerWrite, at: usize) -> Step {
    let writer = Writer::parse(writer);
    let named = writer.in_version(kind, name);
    let collection = writer.collection(kind);
    let path = writer.path(&format!("{collection}/{name}"));
    match verb.as_str() {
        "get" => get(&path),
        "post" => post(&writer.path(&collection), &merge(&named, body)),
        "put" => {
            let mut whole = merge(&named, body);
            let before = format!("{{{{steps.{}.rv}}}}", at.saturating_sub(1));
            whole["metadata"]["resourceVersion"] = before.into();
            send("PUT", &path, JSON, whole.to_string())
        }
        "whole" => patch(&path, APPLY, &merge(&named, body)),
        "apply" => patch(&path, APPLY, &merge(&identity(&named), body)),
        "merge" => patch(&path, MERGE, body),
        "strategic" => patch(&path, STRATEGIC, body),
        "json" => patch(&path, JSON_PATCH, body),
        other => panic!("unknown verb {other:?} in the corpus"),
    }
}

/// The fields that identify the object.
fn identity(object: &Value) -> Value {
    let field = |name: &str| object[name].clone();
    json!({"apiVersion": field("apiVersion"), "kind": field("kind"), "metadata": field("metadata")})
}

/// Merges `above` into `below`: maps are merged, all other values replaced, null included.
fn merge(below: &Value, above: &Value) -> Value {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            let mut merged: Map<String, Value> = below.clone();
            for (key, value) in above {
                let value = match below.get(key) {
                    Some(old) => merge(old, value),
                    None => value.clone(),
                };
                merged.insert(key.clone(), value);
            }
            merged.into()
        }
        (_, above) => above.clone(),
    }
}

impl<'a> Writer<'a> {
    fn parse(text: &'a str) -> Self {
        let (text, query) = text.split_once('?').unwrap_or((text, ""));
        let (text, subresource) = text.split_once('/').unwrap_or((text, ""));
        let (text, version) = match text.split_once('@') {
            Some((text, version)) => (text, Some(version)),
            None => (text, None),
        };
        Writer {
            name: text.trim_end_matches('!'),
            force: text.ends_with('!'),
            version,
            subresource,
            query,
        }
    }

    /// The initial object with its name, in the writer's version.
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
        let subresource = if self.subresource.is_empty() { "" } else { "/" };
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
        let separator = if query.is_empty() { "" } else { "?" };
        format!(
            "{object}{subresource}{}{separator}{}",
            self.subresource,
            query.join("&")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_parsed() {
        let writer = Writer::parse("a!@v2/status?dryRun=All");
        assert_eq!(
            writer,
            Writer {
                name: "a",
                force: true,
                version: Some("v2"),
                subresource: "status",
                query: "dryRun=All"
            }
        );
        assert_eq!(
            writer.path("/x"),
            "/x/status?fieldManager=a&force=true&dryRun=All"
        );
        assert_eq!(Writer::parse("").path("/x"), "/x");
    }

    #[test]
    fn the_merged_value_wins_and_a_null_stays() {
        let merged = merge(
            &json!({"a": {"b": 1}, "c": 2}),
            &json!({"a": {"d": null}, "c": 3}),
        );
        assert_eq!(merged, json!({"a": {"b": 1, "d": null}, "c": 3}));
    }
}
