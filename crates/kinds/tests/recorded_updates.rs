//! Update validation against responses recorded from Kubernetes: each recorded update is run through its kind alone,
//! on the object that Kubernetes returned before, and a rejected update must be rejected with the same causes.
//!
//! `RECORDED=Pod` shows the differences of the cases whose id contains the text.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test says what differs")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_api::field::Errors;
use setpoint_api::{Status, User};
use setpoint_schema::{Tree, prune};
use setpoint_strategy::{Kind, Kinds, RequestFacts, UpdateContext, meta};

/// How many of the recorded updates must agree. It only ever goes up.
const FLOOR: usize = 135;

#[test]
fn recorded_updates_are_reproduced() {
    let text = setpoint_reference::transcript("update");
    let filter = std::env::var("RECORDED").unwrap_or_default();
    let kinds = setpoint_kinds::builtin();
    let (mut compared, mut agreed) = (0, 0);
    for line in text.lines() {
        let case: Value = serde_json::from_str(&fill_placeholders(line)).unwrap();
        let id = case["id"].as_str().unwrap();
        for (actual, expected) in replay(&kinds, case["steps"].as_array().unwrap()) {
            compared += 1;
            if actual == expected {
                agreed += 1;
            } else if !filter.is_empty() && id.contains(&filter) {
                eprintln!("{id}\n  ours: {actual:#}\n  theirs: {expected:#}");
            }
        }
    }
    eprintln!("{agreed} of {compared} recorded updates agree");
    assert!(
        agreed >= FLOOR,
        "{agreed} of {compared} agree, and {FLOOR} did before"
    );
}

/// Replaces the placeholders of the recordings by real values.
fn fill_placeholders(line: &str) -> String {
    line.replace("<rand>", "abcde")
        .replace("<time>", "2026-01-02T03:04:05Z")
        .replace("<rv>", "7")
        .replace("<uid>", "a2b3c4d5-0000-4000-8000-000000000001")
}

/// The outcomes of a case's updates by the kinds, and by Kubernetes.
fn replay(kinds: &Kinds, steps: &[Value]) -> Vec<(Value, Value)> {
    let mut objects: HashMap<String, Value> = HashMap::new();
    let mut outcomes = Vec::new();
    for step in steps {
        let (body, status) = (
            &step["expect"]["body"],
            step["expect"]["status"].as_u64().unwrap(),
        );
        let path = step["path"].as_str().unwrap().split('?').next().unwrap();
        let (object, subresource) = split_path(kinds, path);
        if let Some(new) = objects
            .get(&object)
            .and_then(|old| request_body(step, steps, old))
        {
            let kind = kind_of(kinds, &new);
            if matches!(status, 200 | 422)
                && let Some(kind) = kind
            {
                let expected = match status {
                    200 => json!({"accepted": true}),
                    _ => json!({"message": body["message"], "causes": body["details"]["causes"]}),
                };
                outcomes.push((update(&*kind, &objects[&object], &new, subresource), expected));
            }
        }
        if matches!(status, 200 | 201)
            && body["metadata"]["name"].is_string()
            && subresource != Some("binding")
        {
            let name = body["metadata"]["name"].as_str().unwrap();
            let object = if step["method"] == "POST" {
                format!("{object}/{name}")
            } else {
                object
            };
            objects.insert(object, body.clone());
        }
    }
    outcomes
}

/// The path of the object, and the subresource.
fn split_path<'a>(kinds: &Kinds, path: &'a str) -> (String, Option<&'a str>) {
    let known = |word: &str| {
        let mut subresources = kinds.iter().flat_map(|kind| kind.info().subresources.clone());
        subresources.any(|subresource| subresource.name == word)
    };
    match path.rsplit_once('/') {
        Some((object, subresource)) if known(subresource) && path.split('/').count() > 5 => {
            (object.to_owned(), Some(subresource))
        }
        _ => (path.to_owned(), None),
    }
}

/// The request body: an object made from an earlier response, or a patch of the current object.
fn request_body(step: &Value, steps: &[Value], old: &Value) -> Option<Value> {
    let content = step["headers"]["Content-Type"].as_str().unwrap_or_default();
    let mut body = match step["method"].as_str()? {
        "PUT" => step["bodyFrom"]["step"].as_u64().map(|at| {
            let at = usize::try_from(at).unwrap();
            steps[at]["expect"]["body"].clone()
        })?,
        "PATCH" if content.contains("merge-patch") => {
            let mut body = old.clone();
            let patch = serde_json::from_str(step["body"].as_str()?).ok()?;
            merge(&mut body, &patch, content.contains("strategic"));
            return Some(body);
        }
        _ => return None,
    };
    for pair in step["bodyFrom"]["set"].as_array()? {
        put(&mut body, pair[0].as_str()?, pair[1].clone());
    }
    for path in step["bodyFrom"]["del"].as_array()? {
        let (parent, last) = path.as_str()?.rsplit_once('/')?;
        if let Some(parent) = body.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(last);
        }
    }
    Some(body)
}

/// A strategic merge patch merges lists by the names of their items, which is all that the recordings need.
fn merge(body: &mut Value, patch: &Value, strategic: bool) {
    match (body, patch) {
        (Value::Object(body), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    body.remove(key);
                } else {
                    merge(body.entry(key).or_insert(Value::Null), value, strategic);
                }
            }
        }
        (Value::Array(items), Value::Array(patches)) if strategic => {
            for patch in patches {
                match items.iter_mut().find(|item| item["name"] == patch["name"]) {
                    Some(item) => merge(item, patch, strategic),
                    None => items.insert(0, patch.clone()),
                }
            }
        }
        (body, patch) => *body = patch.clone(),
    }
}

fn put(body: &mut Value, path: &str, value: Value) {
    let mut target = body;
    for word in path.trim_start_matches('/').split('/') {
        let word = word.replace("~1", "/").replace("~0", "~");
        target = match target {
            Value::Array(items) => {
                let at: usize = word.parse().unwrap_or(items.len());
                if at >= items.len() {
                    items.push(Value::Null);
                }
                let last = items.len() - 1;
                &mut items[at.min(last)]
            }
            target => {
                if !target.is_object() {
                    *target = json!({});
                }
                target.as_object_mut().unwrap().entry(word).or_insert(Value::Null)
            }
        };
    }
    *target = value;
}

fn kind_of(kinds: &Kinds, object: &Value) -> Option<Arc<dyn Kind>> {
    let mut kinds = kinds.iter();
    let actual = kinds.find(|kind| {
        let gvk = &kind.info().gvk;
        object["kind"] == gvk.kind.as_str() && object["apiVersion"] == gvk.api_version().as_str()
    });
    actual.cloned()
}

fn update(kind: &dyn Kind, old: &Value, new: &Value, subresource: Option<&str>) -> Value {
    let (old, mut new) = match (prepare(kind, old), prepare(kind, new)) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(problem), _) | (_, Err(problem)) => return json!({"problem": problem}),
    };
    meta::copy(&mut new, &old, "generation");
    let subresource = subresource.and_then(|name| kind.info().find_subresource(name));
    let subresource = subresource.map(|subresource| subresource.kind);
    let update = UpdateContext {
        old: &old,
        subresource,
        facts: &facts(),
    };
    kind.prepare_update(&mut new, &update);
    let errors = Errors::default();
    kind.validate_update(&new, &update, &errors);
    if errors.is_empty() {
        return json!({"accepted": true});
    }
    let status = Status::invalid(&kind.info().gvk, meta::name(&new), &errors.into_vec());
    let status = serde_json::to_value(status).unwrap();
    json!({"message": status["message"], "causes": status["details"]["causes"]})
}

fn prepare(kind: &dyn Kind, object: &Value) -> Result<Tree, String> {
    let mut tree = setpoint_codec::json::parse(object.to_string().as_bytes()).unwrap();
    prune(kind.shape(), &mut tree);
    kind.prepare_input(&mut tree)
        .map_err(|problem| problem.to_string())?;
    Ok(tree)
}

fn facts() -> RequestFacts {
    RequestFacts {
        now: "2026-01-02T03:04:05Z".parse().unwrap(),
        user: Arc::new(User::component("tester")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}
