//! What a schema makes of documents, in rows.

use super::*;
use crate::tree::to_tree;

fn schema(json: serde_json::Value) -> Schema {
    Schema::compile(&to_tree(&json).unwrap())
}

fn tree(json: serde_json::Value) -> Tree {
    to_tree(&json).unwrap()
}

fn spec(properties: serde_json::Value) -> Schema {
    schema(
        serde_json::json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}),
    )
}

#[track_caller]
fn check(properties: serde_json::Value, value: serde_json::Value, expected: &[&str]) {
    let document = tree(serde_json::json!({"spec": value}));
    let found: Vec<String> = spec(properties)
        .validate(&document, None)
        .iter()
        .map(print)
        .collect();
    assert_eq!(found, expected);
}

fn print(report: &Report) -> String {
    let path = report.path.as_deref().unwrap_or("<nil>");
    match &report.subject {
        Subject::Invalid { detail, .. } | Subject::Mistyped { detail, .. } => format!("{path}: {detail}"),
        other => format!("{path}: {other:?}"),
    }
}

#[test]
fn numbers_are_held_to_their_limits() {
    let rules = serde_json::json!({"n": {"type": "integer", "minimum": 2, "maximum": 10, "multipleOf": 2}});
    check(rules.clone(), serde_json::json!({"n": 4}), &[]);
    check(
        rules.clone(),
        serde_json::json!({"n": 11}),
        &[
            "spec.n: spec.n in body should be a multiple of 2",
            "spec.n: spec.n in body should be less than or equal to 10",
        ],
    );
    check(
        rules,
        serde_json::json!({"n": "x"}),
        &[r#"spec.n: spec.n in body must be of type integer: "string""#],
    );
}

#[test]
fn unknown_fields_go_unless_they_are_kept() {
    let known = spec(
        serde_json::json!({"a": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
    );
    let mut document =
        tree(serde_json::json!({"kind": "K", "spec": {"a": "x", "b": 1, "free": {"z": 1}}, "extra": 1}));
    assert_eq!(known.prune(&mut document), ["extra", "spec.b"]);
    assert_eq!(
        document,
        tree(serde_json::json!({"kind": "K", "spec": {"a": "x", "free": {"z": 1}}}))
    );
}

#[test]
fn defaults_are_filled_in_where_there_is_a_parent() {
    let with = spec(
        serde_json::json!({"a": {"type": "string", "default": "x"}, "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 1}}}}),
    );
    let mut document = tree(serde_json::json!({"spec": {}}));
    with.fill(&mut document);
    assert!(document.means_same(&tree(serde_json::json!({"spec": {"a": "x", "b": {"c": 1}}}))));
    let mut without = tree(serde_json::json!({}));
    with.fill(&mut without);
    assert_eq!(without, tree(serde_json::json!({})));
}

#[test]
fn what_an_update_leaves_alone_is_not_judged_again() {
    let rules = spec(
        serde_json::json!({"n": {"type": "integer", "minimum": 5}, "m": {"type": "integer", "minimum": 5}}),
    );
    let old = tree(serde_json::json!({"spec": {"n": 1}}));
    let new = tree(serde_json::json!({"spec": {"n": 1, "m": 2}}));
    let found: Vec<String> = rules.validate(&new, Some(&old)).iter().map(print).collect();
    assert_eq!(
        found,
        ["spec.m: spec.m in body should be greater than or equal to 5"]
    );
}

#[test]
fn a_shape_is_made_for_patches_and_apply() {
    let shape = spec(serde_json::json!({
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                 "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }))
    .to_shape("Thing");
    let list = shape.at(&["spec"]).and_then(|spec| spec.member("list")).unwrap();
    assert_eq!(list.list_type, Some(ListType::Map));
    assert_eq!(list.list_keys, ["name"]);
    assert!(shape.member("metadata").is_some());
}
