//! The four patch types, valid and invalid.

use serde_json::{Value, json};

use super::Entry;
use super::steps::{APPLY, JSON_PATCH, MERGE, STRATEGIC, get, patch, post, send};
use crate::transcript::{Case, Step};

pub(super) fn cases(entry: &Entry) -> Vec<Case> {
    if !entry.is_stored() {
        return Vec::new();
    }
    vec![
        merge(entry, "merge", MERGE),
        merge(entry, "strategic", STRATEGIC),
        json_patch(entry),
        apply(entry),
        two_appliers(entry),
        invalid(entry),
    ]
}

fn change(entry: &Entry) -> Value {
    entry
        .change
        .clone()
        .unwrap_or_else(|| json!({"metadata": {"annotations": {"note": "changed"}}}))
}

fn merge(entry: &Entry, name: &str, kind: &str) -> Case {
    let entry = entry.renamed(name);
    let path = &entry.path();
    let change = change(&entry);
    let mut stale = change.clone();
    stale["metadata"]["resourceVersion"] = json!("1");
    let steps = vec![
        post(&entry.at, &entry.object),
        patch(&format!("{path}?dryRun=All"), kind, &change),
        patch(&format!("{path}?fieldManager=second"), kind, &change),
        patch(path, kind, &change),
        patch(path, kind, &json!({})),
        patch(
            path,
            kind,
            &json!({"metadata": {"labels": {"a": null, "b": "1"}}}),
        ),
        patch(path, kind, &json!({"bogusField": {"x": 1}})),
        patch(
            &format!("{path}?fieldValidation=Strict"),
            kind,
            &json!({"bogusField": {"x": 1}}),
        ),
        patch(path, kind, &stale),
        get(path),
    ];
    entry.case("patches", name, steps)
}

fn json_patch(entry: &Entry) -> Case {
    let entry = entry.renamed("json");
    let path = &entry.path();
    let ops = |ops: Value| patch(path, JSON_PATCH, &ops);
    let steps = vec![
        post(&entry.at, &entry.object),
        ops(json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "1", "b/c": "2"}}])),
        ops(json!([{"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "3"},
            {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/d"},
            {"op": "move", "from": "/metadata/labels/d", "path": "/metadata/labels/e"}])),
        ops(json!([{"op": "test", "path": "/metadata/labels/a", "value": "9"}])),
        ops(json!([{"op": "remove", "path": "/metadata/labels/absent"}])),
        ops(json!([{"op": "replace", "path": "/kind", "value": "Other"}])),
        ops(json!([{"op": "bogus", "path": "/metadata"}])),
        ops(json!({"op": "add"})),
        ops(json!([{"op": "remove", "path": "/metadata/labels/b~1c"}])),
        get(path),
    ];
    entry.case("patches", "json", steps)
}

/// An object that an apply creates, changes, and removes fields from.
fn apply(entry: &Entry) -> Case {
    let entry = entry.renamed("apply");
    let whole = &entry.object;
    let mut labelled = whole.clone();
    labelled["metadata"]["labels"] = json!({"owned": "one"});
    let mut unknown = whole.clone();
    unknown["bogusField"] = json!(1);
    let by = |manager: &str, more: &str, body: &Value| applied(&entry, manager, more, body);
    let steps = vec![
        by("one", "&dryRun=All", whole),
        get(&entry.path()),
        by("one", "", &labelled),
        by("one", "", &labelled),
        by("one", "", whole),
        by("", "", whole),
        by("one", "", &unknown),
        by("one", "&fieldValidation=Strict", &unknown),
        get(&entry.path()),
    ];
    entry.case("patches", "apply", steps)
}

/// Two managers apply different values: a conflict, then a forced apply, then shared ownership.
fn two_appliers(entry: &Entry) -> Case {
    let entry = entry.renamed("appliers");
    let labelled = |value: &str| {
        let mut object = entry.object.clone();
        object["metadata"]["labels"] = json!({"owned": value});
        object
    };
    let by = |manager: &str, more: &str, value: &str| applied(&entry, manager, more, &labelled(value));
    let steps = vec![
        by("one", "", "a"),
        by("two", "", "b"),
        by("two", "&force=true", "b"),
        by("one", "", "b"),
        patch(
            &format!("{}?fieldManager=three", entry.path()),
            MERGE,
            &json!({"metadata": {"labels": {"owned": "c"}}}),
        ),
        by("one", "", "a"),
        get(&entry.path()),
    ];
    entry.case("patches", "appliers", steps)
}

fn invalid(entry: &Entry) -> Case {
    let entry = entry.renamed("refused");
    let path = &entry.path();
    let raw = |kind: &str, body: &str| send("PATCH", path, kind, body);
    let steps = vec![
        raw(MERGE, "{\"metadata\":{}}"),
        post(&entry.at, &entry.object),
        raw(MERGE, "{not json"),
        raw(MERGE, "[]"),
        raw(STRATEGIC, "\"text\""),
        raw(STRATEGIC, "{\"metadata\":{\"labels\":{\"$patch\":\"bogus\"}}}"),
        raw(JSON_PATCH, "{}"),
        raw(APPLY, "{a: [}"),
        raw("application/json", "{}"),
        raw("text/plain", "{}"),
        patch(path, MERGE, &json!({"metadata": {"name": "someone-else"}})),
        patch(path, MERGE, &json!({"metadata": {"labels": {"bad key!": "x"}}})),
        patch(path, MERGE, &json!({"metadata": {"annotations": "text"}})),
        patch(&format!("{path}?force=true"), MERGE, &json!({})),
    ];
    entry.case("patches", "refused", steps)
}

fn applied(entry: &Entry, manager: &str, more: &str, body: &Value) -> Step {
    let path = format!("{}?fieldManager={manager}{more}", entry.path());
    send("PATCH", &path, APPLY, body.to_string())
}
