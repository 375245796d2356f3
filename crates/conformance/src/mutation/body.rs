//! Mutated objects: a valid object with one or a few fields changed, removed, added or copied.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Map, Value, json};

use crate::json_pointer::{escaped, remove};

/// Strings that one of the usual formats accepts and another rejects.
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "A",
    "a-",
    "-a",
    "a.b",
    "a/b",
    "a/b/c",
    "a_b",
    "a b",
    "ü",
    ".",
    "..",
    "0",
    "-1",
    "1.5",
    "007",
    "true",
    "null",
    "1Gi",
    "100m",
    "1e3",
    "-5",
    "10%",
    "101%",
    "5m",
    "2026-01-01T00:00:00Z",
    "yesterday",
    "192.0.2.1",
    "192.0.2.300",
    "192.0.2.0/24",
    "2001:db8::1",
    "example.com",
    "example.com/x",
    "*.example.com",
    "http",
    "TCP",
    "Always",
    "None",
    "Default",
    "kubernetes.io/x",
    "$(X)",
    "{}",
];

const NUMBERS: &[i64] = &[
    -1,
    0,
    1,
    2,
    7,
    100,
    101,
    1000,
    65_535,
    65_536,
    2_147_483_647,
    2_147_483_648,
    -2_147_483_649,
    i64::MAX,
];

/// Lengths around the limits of labels and names.
const LENGTHS: &[usize] = &[53, 57, 63, 64, 253, 254, 400];

/// Parts of `metadata` that a client may send.
fn metadata_parts() -> Vec<Value> {
    vec![
        json!({"labels": {"app": "a"}}),
        json!({"labels": {"app": "bad value!"}}),
        json!({"labels": {"bad key!": "a"}}),
        json!({"labels": {"a/b/c": ""}}),
        json!({"labels": null}),
        json!({"labels": {"a": null}}),
        json!({"labels": {"a": 1}}),
        json!({"labels": ["a"]}),
        json!({"annotations": {"Example.com/Note": "x"}}),
        json!({"annotations": {"": "x"}}),
        json!({"annotations": {"a": true}}),
        json!({"finalizers": ["example.com/hold"]}),
        json!({"finalizers": ["hold"]}),
        json!({"finalizers": ["foregroundDeletion", "orphan"]}),
        json!({"finalizers": ["a b"]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "v", "controller": true}]}),
        json!({"ownerReferences": [{"apiVersion": "events/v1/x", "kind": "", "name": "", "uid": ""}]}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]}),
        json!({"generation": -1}),
        json!({"generation": 7}),
        json!({"uid": "u"}),
        json!({"selfLink": "/x"}),
        json!({"creationTimestamp": "2020-01-01T00:00:00Z"}),
        json!({"creationTimestamp": "soon"}),
        json!({"deletionTimestamp": "2020-01-01T00:00:00Z"}),
        json!({"deletionGracePeriodSeconds": 5}),
        json!({"managedFields": []}),
        json!({"managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {}}, "time": "2020-01-01T00:00:00Z"}]}),
        json!({"managedFields": [{"manager": "m", "operation": "Odd"}]}),
        json!({"managedFields": [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}]}),
        json!({"namespace": "another"}),
        json!({"namespace": ""}),
        json!({"clusterName": "x"}),
    ]
}

/// The object with one to three mutations.
pub(super) fn mutated(object: &Value, rng: &mut StdRng) -> Value {
    let mut object = object.clone();
    mutate(&mut object, rng);
    while rng.random_bool(0.25) {
        mutate(&mut object, rng);
    }
    object
}

/// A value for a field that has this one.
pub(super) fn variant(value: &Value, rng: &mut StdRng) -> Value {
    match value {
        Value::String(text) if rng.random_bool(0.7) => json!(text_variant(text, rng)),
        Value::Number(number) if rng.random_bool(0.7) => {
            let near = number.as_i64().unwrap_or_default();
            let offset = rng.random_range(-1..=1);
            match rng.random_bool(0.3) {
                true => json!(near.saturating_add(offset)),
                false => json!(number_of(rng)),
            }
        }
        Value::Bool(flag) if rng.random_bool(0.6) => json!(!flag),
        _ => other_value(rng),
    }
}

/// JSON pointers to every value below the top level; `apiVersion` and `kind` only rarely.
pub(super) fn pointers(object: &Value, rng: &mut StdRng) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        let is_type = matches!(name.as_str(), "apiVersion" | "kind");
        if !is_type || rng.random_bool(0.03) {
            walk(value, format!("/{}", escaped(name)), &mut found);
        }
    }
    found
}

fn mutate(object: &mut Value, rng: &mut StdRng) {
    if rng.random_bool(0.12) {
        return add_metadata(object, rng);
    }
    let all = pointers(object, rng);
    let Some(pointer) = all.choose(rng) else { return };
    let copied = all.choose(rng).and_then(|other| object.pointer(other)).cloned();
    let is_name = pointer == "/metadata/name" || pointer == "/metadata";
    match rng.random_range(0..100) {
        // Most mutations of the name would only show that the name is validated.
        _ if is_name && rng.random_bool(0.8) => add_metadata(object, rng),
        0..14 => remove(object, pointer),
        14..22 => add_unknown(object, pointer, rng),
        22..30 => set(object, pointer, copied.unwrap_or_default()),
        30..38 => change_list(object, pointer, rng),
        _ => {
            let new = object.pointer(pointer).map(|value| variant(value, rng));
            set(object, pointer, new.unwrap_or_default());
        }
    }
}

fn add_metadata(object: &mut Value, rng: &mut StdRng) {
    let parts = metadata_parts();
    let part = parts.choose(rng).cloned().unwrap_or_default();
    if let (Some(metadata), Value::Object(part)) = (object["metadata"].as_object_mut(), part) {
        metadata.extend(part);
    }
}

fn set(object: &mut Value, pointer: &str, new: Value) {
    if let Some(value) = object.pointer_mut(pointer) {
        *value = new;
    }
}

fn add_unknown(object: &mut Value, pointer: &str, rng: &mut StdRng) {
    let value = other_value(rng);
    match object.pointer_mut(pointer) {
        Some(Value::Object(fields)) => drop(fields.insert("unknownField".to_owned(), value)),
        Some(Value::Array(items)) => items.push(value),
        Some(other) => *other = value,
        None => {}
    }
}

/// Repeats, reverses or empties a list; another value becomes a list of itself.
fn change_list(object: &mut Value, pointer: &str, rng: &mut StdRng) {
    match object.pointer_mut(pointer) {
        Some(Value::Array(items)) => match rng.random_range(0..3) {
            0 => items.clear(),
            1 => items.reverse(),
            _ => items.extend(items.clone()),
        },
        Some(other) => *other = json!([other.clone()]),
        None => {}
    }
}

fn text_variant(text: &str, rng: &mut StdRng) -> String {
    match rng.random_range(0..10) {
        0 => format!("{text}-"),
        1 => text.to_uppercase(),
        2 => format!("{text} "),
        3 => "n".repeat(LENGTHS.choose(rng).copied().unwrap_or_default()),
        _ => TEXTS.choose(rng).copied().unwrap_or_default().to_owned(),
    }
}

fn other_value(rng: &mut StdRng) -> Value {
    match rng.random_range(0..10) {
        0 => Value::Null,
        1 => json!(rng.random_bool(0.5)),
        2 | 3 => json!(number_of(rng)),
        4 => json!(1.5),
        5 => json!([]),
        6 => json!({}),
        7 => json!(["odd"]),
        8 => Value::Object(Map::from_iter([("odd".to_owned(), json!(number_of(rng)))])),
        _ => json!(TEXTS.choose(rng).copied().unwrap_or_default()),
    }
}

fn number_of(rng: &mut StdRng) -> i64 {
    NUMBERS.choose(rng).copied().unwrap_or_default()
}

fn walk(value: &Value, pointer: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(value, format!("{pointer}/{}", escaped(name)), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                walk(value, format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
    found.push(pointer);
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_mutated_object_differs_and_most_keep_their_kind_and_name() {
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"a": [{"b": 1}], "c": "x"}});
        let (mut same, mut typed, mut named) = (0, 0, 0);
        for seed in 0..1000 {
            let mutated = mutated(&object, &mut StdRng::seed_from_u64(seed));
            same += usize::from(mutated == object);
            typed += usize::from(mutated["kind"] == "K" && mutated["apiVersion"] == "v1");
            named += usize::from(mutated["metadata"]["name"] == "n");
        }
        assert!(same < 100, "{same}");
        assert!(typed > 950, "{typed}");
        assert!(named > 900, "{named}");
    }
}
