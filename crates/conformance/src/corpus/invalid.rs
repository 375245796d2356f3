//! Invalid objects: each field missing, of another type, of another value; invalid names and unknown fields.

use serde_json::{Value, json};

use super::Entry;
use super::steps::{JSON, post, send};
use crate::json_pointer::{escaped, remove};
use crate::transcript::Case;

/// Too long for any name.
const LONG: usize = 300;

pub(super) fn cases(entry: &Entry) -> Vec<Case> {
    let entry = entry.renamed("broken");
    let mut cases = vec![names(&entry), bodies(&entry)];
    for (number, path) in paths(&entry.object).iter().enumerate() {
        cases.push(leaf(&entry, number, path));
    }
    cases
}

/// One field with every mutation. Requests are dry runs, so that each variant sees the same server state.
fn leaf(entry: &Entry, number: usize, path: &str) -> Case {
    let at = format!("{}?dryRun=All", entry.at);
    let mut variants: Vec<Value> = Vec::new();
    let mut missing = entry.object.clone();
    remove(&mut missing, path);
    variants.push(missing);
    for value in [
        json!(null),
        json!({"odd": 1}),
        json!(["odd"]),
        json!(true),
        json!(-7),
        json!("No/Such value!"),
        json!(""),
    ] {
        let mut variant = entry.object.clone();
        if let Some(target) = variant.pointer_mut(path) {
            *target = value;
        }
        variants.push(variant);
    }
    let steps = variants.iter().map(|variant| post(&at, variant)).collect();
    entry.case("broken", &format!("{number:02}{}", path.replace('/', ".")), steps)
}

fn names(entry: &Entry) -> Case {
    let at = format!("{}?dryRun=All", entry.at);
    let metadata = |metadata: Value| {
        let mut variant = entry.object.clone();
        variant["metadata"] = metadata;
        post(&at, &variant)
    };
    let long = "n".repeat(LONG);
    let steps = vec![
        metadata(json!({})),
        metadata(json!({"name": "Upper_Case"})),
        metadata(json!({"name": "a/b"})),
        metadata(json!({"name": "."})),
        metadata(json!({"name": "bücher"})),
        metadata(json!({"name": long})),
        metadata(json!({"generateName": "made-"})),
        metadata(json!({"name": "x", "namespace": "another"})),
        // One error each: kube-apiserver reports several labels in random map order.
        metadata(json!({"name": "x", "labels": {"bad key!": "v"}})),
        metadata(json!({"name": "x", "labels": {"ok": "bad value!"}})),
        metadata(json!({"name": "x", "annotations": {"Bad Key": "v"}})),
        metadata(json!({"name": "x", "finalizers": ["no-slash", "example.com/fine"]})),
        metadata(json!({"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "Pod"}]})),
        metadata(json!({"name": "x", "resourceVersion": "7"})),
        metadata(json!({"name": "x", "bogus": 1})),
    ];
    entry.case("broken", "names", steps)
}

/// Errors of the body as a whole.
fn bodies(entry: &Entry) -> Case {
    let at = format!("{}?dryRun=All", entry.at);
    let text = entry.object.to_string();
    let changed = |name: &str, value: Value| {
        let mut variant = entry.object.clone();
        variant[name] = value;
        variant
    };
    let unknown = changed("bogusField", json!({"x": 1}));
    let validated = |mode: &str, object: &Value| post(&format!("{at}&fieldValidation={mode}"), object);
    let doubled = text.replacen('{', "{\"apiVersion\":\"v1\",", 1);
    let steps = vec![
        post(&at, &changed("kind", json!("Other"))),
        post(&at, &changed("apiVersion", json!("other/v9"))),
        post(&at, &changed("kind", json!(5))),
        post(&at, &unknown),
        validated("Strict", &unknown),
        validated("Warn", &unknown),
        validated("Ignore", &unknown),
        validated("Bogus", &unknown),
        send("POST", &format!("{at}&fieldValidation=Strict"), JSON, doubled),
        send("POST", &at, JSON, &text[..text.len() / 2]),
        send("POST", &at, JSON, ""),
        send("POST", &at, JSON, "[]"),
        send("POST", &at, "application/yaml", "a: [1"),
        send("POST", &at, "text/plain", text.clone()),
        send("POST", &at, "application/vnd.kubernetes.protobuf", "nonsense"),
    ];
    entry.case("broken", "documents", steps)
}

/// JSON pointers to all values outside of `apiVersion`, `kind` and `metadata`, containers included.
fn paths(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in object.as_object().into_iter().flatten() {
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            walk(value, format!("/{}", escaped(name)), &mut found);
        }
    }
    found
}

fn walk(value: &Value, path: String, found: &mut Vec<String>) {
    found.push(path.clone());
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(value, format!("{path}/{}", escaped(name)), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                walk(value, format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_reached_and_can_be_removed() {
        let object = json!({"kind": "K", "metadata": {"name": "n"}, "spec": {"a/b": [1, {"c": 2}]}});
        let paths = paths(&object);
        assert_eq!(
            paths,
            [
                "/spec",
                "/spec/a~1b",
                "/spec/a~1b/0",
                "/spec/a~1b/1",
                "/spec/a~1b/1/c"
            ]
        );
        let mut without = object.clone();
        remove(&mut without, "/spec/a~1b/0");
        assert_eq!(without["spec"]["a/b"], json!([{"c": 2}]));
        remove(&mut without, "/spec/a~1b");
        assert_eq!(without["spec"], json!({}));
    }
}
