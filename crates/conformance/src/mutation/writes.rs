//! Mutated writes of built-in kinds: creates, updates, the four patch types, and `status`.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Map, Value, json};

use super::body;
use crate::corpus::Entry;
use crate::corpus::steps::{APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, patch, post, send};
use crate::transcript::{Case, Step};

const VALIDATION: &[&str] = &[
    "",
    "",
    "&fieldValidation=Strict",
    "&fieldValidation=Ignore",
    "&pretty=1",
];
const OPERATIONS: &[&str] = &["add", "replace", "remove", "test", "copy", "move"];

/// Kinds whose objects a controller of the API server completes after their create, and how long that takes: the responses
/// to the next request depend on it. A CustomResourceDefinition is established after five seconds.
const COMPLETED_LATER: &[(&str, u64)] = &[
    ("apiextensions.k8s.io-v1-CustomResourceDefinition", 6500),
    ("apiregistration.k8s.io-v1-APIService", 1000),
    ("flowcontrol.apiserver.k8s.io-v1-FlowSchema", 1000),
];

/// A create as a dry run.
pub(super) fn create(entry: &Entry, id: &str, rng: &mut StdRng) -> Case {
    let object = body::mutated(&entry.object, rng);
    let validation = VALIDATION.choose(rng).copied().unwrap_or_default();
    let at = format!("{}?dryRun=All{validation}", entry.at);
    case(entry, "create", id, vec![post(&at, &object)])
}

/// An object and a mutated update of it.
pub(super) fn update(entry: &Entry, id: &str, rng: &mut StdRng) -> Case {
    let entry = entry.renamed(&format!("u{id}"));
    let mut object = body::mutated(&entry.object, rng);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata
            .entry("resourceVersion")
            .or_insert(json!("{{steps.0.rv}}"));
    }
    let steps = vec![
        post(&entry.at, &entry.object),
        send("PUT", &entry.path(), JSON, object.to_string()),
    ];
    case(&entry, "update", id, steps)
}

/// An object and a mutated patch of it, of any type but apply.
pub(super) fn patched(entry: &Entry, id: &str, rng: &mut StdRng) -> Case {
    let entry = entry.renamed(&format!("p{id}"));
    let step = random_patch(&entry.path(), &entry.object, rng);
    case(&entry, "patch", id, vec![post(&entry.at, &entry.object), step])
}

/// A mutated object that is applied, and the valid one applied by another manager.
pub(super) fn applied(entry: &Entry, id: &str, rng: &mut StdRng) -> Case {
    let entry = entry.renamed(&format!("a{id}"));
    let apply = |manager: &str, object: &Value| {
        let path = format!("{}?fieldManager={manager}", entry.path());
        send("PATCH", &path, APPLY, object.to_string())
    };
    let mutated = body::mutated(&entry.object, rng);
    let steps = match rng.random_bool(0.5) {
        true => vec![apply("one", &mutated), apply("two", &entry.object)],
        false => vec![apply("one", &entry.object), apply("two", &mutated)],
    };
    case(&entry, "apply", id, steps)
}

/// A mutated write of `status`.
pub(super) fn status(entry: &Entry, id: &str, rng: &mut StdRng) -> Case {
    let entry = entry.renamed(&format!("s{id}"));
    let path = format!("{}/status", entry.path());
    let condition = json!({"type": "Ready", "status": "True", "reason": "Tested", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let mut object = entry.object.clone();
    object["status"] =
        json!({"conditions": [condition], "observedGeneration": 1, "replicas": 1, "phase": "Active"});
    let mutated = body::mutated(&object, rng);
    let step = match rng.random_bool(0.5) {
        true => patch(&path, MERGE, &json!({"status": mutated["status"].clone()})),
        false => {
            let mut object = mutated;
            object["metadata"] = json!({"name": entry.name(), "resourceVersion": "{{steps.0.rv}}"});
            send("PUT", &path, JSON, object.to_string())
        }
    };
    case(&entry, "status", id, vec![post(&entry.at, &entry.object), step])
}

/// How long to wait after the create of an object.
fn settling_ms(kind: &str) -> u64 {
    let completed = COMPLETED_LATER.iter().find(|(own, _)| *own == kind);
    completed.map_or(0, |(_, wait)| *wait)
}

/// A merge, strategic merge or JSON patch of this object.
pub(super) fn random_patch(path: &str, object: &Value, rng: &mut StdRng) -> Step {
    match rng.random_range(0..3) {
        0 => patch(path, MERGE, &fragment(object, rng)),
        1 => {
            let mut fragment = fragment(object, rng);
            if rng.random_bool(0.3) {
                add_directive(&mut fragment, rng);
            }
            patch(path, STRATEGIC, &fragment)
        }
        _ => patch(path, JSON_PATCH, &operations(object, rng)),
    }
}

/// One field of the mutated object, as a merge patch.
fn fragment(object: &Value, rng: &mut StdRng) -> Value {
    let mutated = body::mutated(object, rng);
    let fields: Vec<(&String, &Value)> = mutated.as_object().into_iter().flatten().collect();
    let chosen = fields
        .iter()
        .filter(|(name, value)| object.get(name.as_str()) != Some(*value));
    let mut patch: Map<String, Value> = chosen
        .map(|(name, value)| ((*name).clone(), (*value).clone()))
        .collect();
    for name in object.as_object().into_iter().flatten().map(|(name, _)| name) {
        if mutated.get(name).is_none() {
            patch.insert(name.clone(), Value::Null);
        }
    }
    Value::Object(patch)
}

/// Adds a directive of a strategic merge patch to a random object in the patch.
fn add_directive(patch: &mut Value, rng: &mut StdRng) {
    let pointers: Vec<String> = body::pointers(patch, rng)
        .into_iter()
        .filter(|pointer| patch.pointer(pointer).is_some_and(Value::is_object))
        .collect();
    let (name, value) = match rng.random_range(0..6) {
        0 => ("$patch", json!("delete")),
        1 => ("$patch", json!("replace")),
        2 => ("$patch", json!("odd")),
        3 => ("$retainKeys", json!(["a"])),
        4 => ("$setElementOrder/containers", json!([{"name": "a"}])),
        _ => ("$deleteFromPrimitiveList/finalizers", json!(["a"])),
    };
    let target = pointers
        .choose(rng)
        .and_then(|pointer| patch.pointer_mut(pointer));
    if let Some(Value::Object(fields)) = target {
        fields.insert(name.to_owned(), value);
    }
}

fn operations(object: &Value, rng: &mut StdRng) -> Value {
    let pointers = body::pointers(object, rng);
    let count = rng.random_range(1..4);
    let mut operations = Vec::new();
    for _ in 0..count {
        let mut pointer = || pointers.choose(rng).cloned().unwrap_or_default();
        let (path, from) = (pointer(), pointer());
        let old = object.pointer(&path).cloned().unwrap_or_default();
        let value = body::variant(&old, rng);
        let path = match rng.random_range(0..10) {
            0 => format!("{path}/-"),
            1 => format!("{path}/0"),
            2 => format!("{path}x"),
            _ => path,
        };
        let name = OPERATIONS.choose(rng).copied().unwrap_or_default();
        let mut operation = json!({"op": name, "path": path});
        match name {
            "copy" | "move" => operation["from"] = json!(from),
            "remove" => {}
            "test" if rng.random_bool(0.7) => operation["value"] = old,
            _ => operation["value"] = value,
        }
        operations.push(operation);
    }
    Value::Array(operations)
}

/// The case without the kind's area prefix, numbered.
fn case(entry: &Entry, area: &str, id: &str, mut steps: Vec<Step>) -> Case {
    for step in steps.iter_mut().skip(1) {
        step.wait_ms = settling_ms(&entry.id);
    }
    let mut case = entry.case(area, id, steps);
    case.id = format!("mutation.{}", case.id);
    case
}
