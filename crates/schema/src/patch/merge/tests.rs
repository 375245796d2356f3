//! Merge patch: rows, and a model of RFC 7386.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tree::to_tree;
use crate::write::write_tree;

fn tree(value: &Value) -> Tree {
    to_tree(value).unwrap()
}

fn text(tree: &Tree) -> String {
    let mut text = Vec::new();
    write_tree(tree, &mut text);
    String::from_utf8(text).unwrap()
}

#[track_caller]
fn check(object: Value, patch: Value, expected: &str) {
    let mut object = tree(&object);
    apply(&mut object, &tree(&patch)).unwrap();
    assert_eq!(text(&object), expected);
}

#[test]
fn null_deletes_and_the_rest_is_merged_or_replaced() {
    check(json!({"a": "b"}), json!({"a": "c"}), r#"{"a":"c"}"#);
    check(json!({"a": "b"}), json!({"b": "c"}), r#"{"a":"b","b":"c"}"#);
    check(json!({"a": "b"}), json!({"a": null}), "{}");
    check(json!({"a": "b", "b": "c"}), json!({"a": null}), r#"{"b":"c"}"#);
    check(json!({"a": ["b"]}), json!({"a": "c"}), r#"{"a":"c"}"#);
    check(json!({"a": "c"}), json!({"a": ["b"]}), r#"{"a":["b"]}"#);
    check(
        json!({"a": {"b": "c"}}),
        json!({"a": {"b": "d", "c": null}}),
        r#"{"a":{"b":"d"}}"#,
    );
    check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), r#"{"a":[1]}"#);
    check(json!({"e": null}), json!({"a": 1}), r#"{"a":1,"e":null}"#);
    check(
        json!({}),
        json!({"a": {"bb": {"ccc": null}}}),
        r#"{"a":{"bb":{}}}"#,
    );
    check(json!({"a": [1]}), json!({"a": {"b": 1}}), r#"{"a":{"b":1}}"#);
}

#[test]
fn a_list_loses_the_nulls_of_its_maps_but_not_its_own() {
    check(
        json!({"a": 1}),
        json!({"a": [null, {"b": null, "c": 1}]}),
        r#"{"a":[null,{"c":1}]}"#,
    );
}

#[test]
fn merged_maps_end_sorted_and_others_keep_their_order() {
    check(
        json!({"z": {"b": 1, "a": 1}, "y": {"b": 1, "a": 1}}),
        json!({"z": {"c": 1}}),
        r#"{"y":{"b":1,"a":1},"z":{"a":1,"b":1,"c":1}}"#,
    );
}

#[test]
fn a_list_in_the_slot_of_a_map_is_copied_as_it_is() {
    check(
        json!({"a": {"x": 1}}),
        json!({"a": [{"c": 1, "b": null}]}),
        r#"{"a":[{"c":1,"b":null}]}"#,
    );
    check(
        json!({"a": 1}),
        json!({"a": [{"c": 1, "b": null}]}),
        r#"{"a":[{"c":1}]}"#,
    );
}

#[test]
fn the_last_of_duplicate_keys_counts() {
    let mut patch = Map::default();
    patch.push("a", tree(&json!({"x": 1})));
    patch.push("a", tree(&json!({"y": 2})));
    let mut object = tree(&json!({"a": {"z": 3}}));
    apply(&mut object, &patch.into()).unwrap();
    assert_eq!(text(&object), r#"{"a":{"y":2,"z":3}}"#);
}

#[test]
fn a_map_of_many_repeated_keys_keeps_the_last_of_each() {
    let mut patch = Map::default();
    (0..100).for_each(|at| patch.push(format!("k{}", at % 20), at));
    let mut object = tree(&json!({}));
    apply(&mut object, &patch.into()).unwrap();
    let map = object.as_map().unwrap();
    assert_eq!(map.len(), 20);
    assert!((0..20).all(|at| map.get(&format!("k{at}")) == Some(&Tree::Int(80 + at))));
}

#[track_caller]
fn check_malformed(patch: Value, expected: &str) {
    assert_eq!(
        apply(&mut tree(&json!({})), &tree(&patch)),
        Err(Error::Malformed(expected.to_owned()))
    );
}

#[test]
fn a_patch_must_be_an_object() {
    let expected_type = "into Go value of type map[string]interface {}";
    check_malformed(
        json!([]),
        &format!("error decoding patch: json: cannot unmarshal array {expected_type}"),
    );
    check_malformed(
        json!("x"),
        &format!("error decoding patch: json: cannot unmarshal string {expected_type}"),
    );
    check_malformed(json!(null), "Invalid JSON Patch");
}

/// RFC 7386's own recursion, with the one difference that maps in lists lose their nulls, unless the list replaces a map.
fn model(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return match target {
            Value::Object(_) => patch.clone(),
            _ => without_nulls(patch),
        };
    };
    let mut target = match target {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    };
    for (key, value) in patch {
        let old = target.shift_remove(key);
        if !value.is_null() {
            target.insert(key.clone(), model(old.unwrap_or_default(), value));
        }
    }
    Value::Object(target)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(map) => {
            let present = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                present
                    .map(|(key, value)| (key.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        scalar => scalar.clone(),
    }
}

/// The patch with the nulls that delete, and no others.
fn without_nulls_in_lists(patch: Value) -> Value {
    match patch {
        Value::Object(map) => {
            let pairs = map.into_iter();
            Value::Object(
                pairs
                    .map(|(key, value)| (key, without_nulls_in_lists(value)))
                    .collect(),
            )
        }
        other => without_nulls(&other),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0i64..5).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-e]", inner), 0..5)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn objects() -> impl Strategy<Value = Value> {
    prop::collection::vec(("[a-e]", values()), 0..5)
        .prop_map(|pairs| Value::Object(pairs.into_iter().collect()))
}

proptest! {
    #[test]
    fn merging_agrees_with_the_standard(object in objects(), patch in objects()) {
        let mut ours = tree(&object);
        apply(&mut ours, &tree(&patch)).unwrap();
        let expected = model(object, &patch);
        let ours: Value = serde_json::from_str(&text(&ours)).unwrap();
        prop_assert_eq!(ours, expected);
    }

    #[test]
    fn merging_twice_changes_nothing_more(object in objects(), patch in objects()) {
        let patch = tree(&without_nulls_in_lists(patch));
        let mut once = tree(&object);
        apply(&mut once, &patch).unwrap();
        let mut twice = once.clone();
        apply(&mut twice, &patch).unwrap();
        prop_assert_eq!(once.sorted(), twice.sorted());
    }
}
