//! JSON Patch: rows and properties.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tree::{Map, to_tree};

fn tree(value: Value) -> Tree {
    to_tree(&value).unwrap()
}

#[track_caller]
fn check(object: Value, patch: Value, expected: Value) {
    let mut object = tree(object);
    apply(&mut object, &tree(patch)).unwrap();
    assert!(
        equal(&object, &tree(expected.clone())),
        "{object:?}\nis not {expected}"
    );
}

#[track_caller]
fn check_fails(object: Value, patch: Value) {
    let result = apply(&mut tree(object), &tree(patch));
    assert!(
        matches!(result, Err(Error::Inapplicable(_) | Error::TestFailed(_))),
        "{result:?}"
    );
}

#[track_caller]
fn check_malformed(patch: Value, expected: &str) {
    let error = apply(&mut tree(json!({})), &tree(patch)).unwrap_err();
    assert_eq!(
        error,
        Error::Malformed(format!("error decoding patch: json: cannot unmarshal {expected}"))
    );
}

#[test]
fn add_sets_a_key_and_inserts_into_a_list() {
    check(
        json!({"a": 1}),
        json!([{"op": "add", "path": "/a", "value": 2}]),
        json!({"a": 2}),
    );
    check(
        json!({}),
        json!([{"op": "add", "path": "/a~1b", "value": {}}]),
        json!({"a/b": {}}),
    );
    check(
        json!({"l": [1, 3]}),
        json!([{"op": "add", "path": "/l/1", "value": 2}]),
        json!({"l": [1, 2, 3]}),
    );
    check(
        json!({"l": [1]}),
        json!([{"op": "add", "path": "/l/-", "value": 2}]),
        json!({"l": [1, 2]}),
    );
    check(
        json!({"l": [1]}),
        json!([{"op": "add", "path": "/l/1", "value": 2}]),
        json!({"l": [1, 2]}),
    );
    check(
        json!({"l": [1]}),
        json!([{"op": "add", "path": "/l/-1", "value": 2}]),
        json!({"l": [1, 2]}),
    );
    check_fails(
        json!({"l": [1]}),
        json!([{"op": "add", "path": "/l/2", "value": 2}]),
    );
    check_fails(
        json!({"l": [1]}),
        json!([{"op": "add", "path": "/x/y", "value": 2}]),
    );
    check_fails(
        json!({"l": 1}),
        json!([{"op": "add", "path": "/l/y", "value": 2}]),
    );
    check_fails(json!({"l": 1}), json!([{"op": "add", "path": "", "value": {}}]));
}

#[test]
fn an_absent_value_is_null() {
    check(
        json!({}),
        json!([{"op": "add", "path": "/a"}]),
        json!({"a": null}),
    );
}

#[test]
fn remove_needs_something_to_remove() {
    check(
        json!({"a": 1, "b": 2}),
        json!([{"op": "remove", "path": "/a"}]),
        json!({"b": 2}),
    );
    check(
        json!({"l": [1, 2]}),
        json!([{"op": "remove", "path": "/l/-1"}]),
        json!({"l": [1]}),
    );
    check_fails(json!({"a": 1}), json!([{"op": "remove", "path": "/b"}]));
    check_fails(json!({"l": [1]}), json!([{"op": "remove", "path": "/l/1"}]));
    check_fails(json!({"l": [1]}), json!([{"op": "remove", "path": "/l/x"}]));
    check_fails(json!({"l": [1]}), json!([{"op": "remove"}]));
}

#[test]
fn replace_sets_an_absent_key_but_no_absent_index() {
    check(
        json!({}),
        json!([{"op": "replace", "path": "/a", "value": 2}]),
        json!({"a": 2}),
    );
    check(
        json!({"l": [1]}),
        json!([{"op": "replace", "path": "/l/0", "value": 2}]),
        json!({"l": [2]}),
    );
    check_fails(
        json!({"l": [1]}),
        json!([{"op": "replace", "path": "/l/1", "value": 2}]),
    );
}

#[test]
fn the_root_is_replaced_by_a_map_or_a_list_only() {
    check(
        json!({"a": 1}),
        json!([{"op": "replace", "path": "", "value": {"b": 2}}]),
        json!({"b": 2}),
    );
    check_fails(
        json!({"a": 1}),
        json!([{"op": "replace", "path": "", "value": 2}]),
    );
}

#[test]
fn a_moved_value_is_removed_from_its_old_path() {
    check(
        json!({"a": 1}),
        json!([{"op": "move", "from": "/a", "path": "/b"}]),
        json!({"b": 1}),
    );
    check(
        json!({"l": [1, 2]}),
        json!([{"op": "move", "from": "/l/0", "path": "/l/1"}]),
        json!({"l": [2, 1]}),
    );
    check_fails(
        json!({"a": 1}),
        json!([{"op": "move", "from": "/b", "path": "/c"}]),
    );
    check_fails(
        json!({"a": {}}),
        json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
    );
    check_fails(json!({"a": {}}), json!([{"op": "move", "path": "/b"}]));
}

#[test]
fn an_absent_key_is_copied_as_null() {
    check(
        json!({"a": [1]}),
        json!([{"op": "copy", "from": "/a", "path": "/b"}]),
        json!({"a": [1], "b": [1]}),
    );
    check(
        json!({}),
        json!([{"op": "copy", "from": "/a", "path": "/b"}]),
        json!({"b": null}),
    );
    check_fails(
        json!({"a": [1]}),
        json!([{"op": "copy", "from": "/a/1", "path": "/b"}]),
    );
}

#[test]
fn a_test_sees_through_the_order_of_keys_only() {
    let holds = |object: Value, path: &str, value: Value| {
        let patch = json!([{"op": "test", "path": path, "value": value}]);
        apply(&mut tree(object), &tree(patch)).is_ok()
    };
    assert!(holds(
        json!({"a": {"x": 1, "y": [null]}}),
        "/a",
        json!({"y": [null], "x": 1})
    ));
    assert!(!holds(json!({"a": {"x": 1}}), "/a", json!({"x": 1, "y": null})));
    assert!(!holds(json!({"a": 1}), "/a", json!(1.0)));
    assert!(!holds(json!({"a": 1}), "/a", json!("1")));
    assert!(holds(json!({"a": 1}), "", json!({"a": 1})));
    assert!(holds(json!({"a": 1}), "/b", json!(null)));
    assert!(!holds(json!({"a": 1}), "/b", json!(1)));
    assert!(!holds(json!({"a": 1}), "/b/c", json!(null)));
    assert!(!holds(json!({"a": [1]}), "/a/1", json!(null)));
}

#[test]
fn a_failed_test_stops_what_follows() {
    let mut object = tree(json!({"a": 1}));
    let patch = json!([{"op": "test", "path": "/a", "value": 2}, {"op": "remove", "path": "/a"}]);
    apply(&mut object, &tree(patch)).unwrap_err();
    assert_eq!(object, tree(json!({"a": 1})));
}

#[test]
fn an_unknown_operation_fails_and_null_is_an_empty_patch() {
    check_fails(json!({}), json!([{"op": "explode", "path": "/a"}]));
    check_fails(json!({}), json!([null]));
    check(json!({"a": 1}), json!(null), json!({"a": 1}));
}

#[test]
fn a_patch_of_another_form_is_malformed() {
    check_malformed(json!(5), "number into Go value of type []handlers.jsonPatchOp");
    check_malformed(json!({}), "object into Go value of type []handlers.jsonPatchOp");
    check_malformed(json!(["x"]), "string into Go value of type handlers.jsonPatchOp");
    check_malformed(
        json!([{"op": 1}]),
        "number into Go struct field jsonPatchOp.op of type string",
    );
    check_malformed(
        json!([{"from": []}]),
        "array into Go struct field jsonPatchOp.from of type string",
    );
}

#[test]
fn there_is_a_limit_to_operations() {
    let operations = |count| Tree::List(vec![tree(json!({"op": "test", "path": "/a"})); count]);
    apply(&mut tree(json!({})), &operations(MAX_OPERATIONS)).unwrap();
    let error = apply(&mut tree(json!({})), &operations(MAX_OPERATIONS + 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn there_is_a_limit_to_copied_bytes() {
    let copies = |count: usize| {
        let copy = |at| json!({"op": "copy", "from": "/a", "path": format!("/b{at}")});
        tree((0..count).map(copy).collect())
    };
    // With its quotes the text is a third of what may be copied.
    let object = || tree(json!({"a": "x".repeat(MAX_COPIED_BYTES / 3 - 2)}));
    apply(&mut object(), &copies(3)).unwrap();
    let error = apply(&mut object(), &copies(4)).unwrap_err();
    assert!(
        matches!(error, Error::Inapplicable(_) | Error::TestFailed(_)),
        "{error:?}"
    );
}

#[test]
fn doubling_an_object_again_and_again_ends_at_the_limit() {
    let double = |at: usize| json!({"op": "copy", "from": "/a", "path": format!("/a/k{at}")});
    let error = apply(
        &mut tree(json!({"a": {"x": "y"}})),
        &tree((0..100).map(double).collect()),
    )
    .unwrap_err();
    assert!(
        matches!(error, Error::Inapplicable(_) | Error::TestFailed(_)),
        "{error:?}"
    );
}

#[test]
fn the_maps_on_the_path_end_sorted() {
    let mut object = tree(json!({"z": {"b": 1, "a": 2}, "m": {"d": {"q": 1, "p": 1}, "c": 2}, "a": 1}));
    apply(
        &mut object,
        &tree(json!([{"op": "add", "path": "/m/b", "value": {"z": 1, "y": 2}}])),
    )
    .unwrap();
    let mut text = Vec::new();
    write_tree(&object, &mut text);
    let expected = r#"{"a":1,"m":{"b":{"z":1,"y":2},"c":2,"d":{"q":1,"p":1}},"z":{"b":1,"a":2}}"#;
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[track_caller]
fn check_text(object: Value, patch: Value, expected: &str) {
    let mut object = tree(object);
    apply(&mut object, &tree(patch)).unwrap();
    let mut text = Vec::new();
    write_tree(&object, &mut text);
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn a_copied_map_keeps_the_order_that_it_had_at_that_time() {
    check_text(
        json!({"m": [{"b": 1, "a": {"d": 1, "c": 1}}]}),
        json!([{"op": "remove", "path": "/m/0/b"}, {"op": "copy", "from": "/m/0/a", "path": "/m/0"}]),
        r#"{"m":[{"d":1,"c":1},{"a":{"d":1,"c":1}}]}"#,
    );
    check_text(
        json!({"m": {"b": 1, "a": 1}, "s": 1}),
        json!([{"op": "replace", "path": "/m/b", "value": 2}, {"op": "move", "from": "/m", "path": "/s"}]),
        r#"{"s":{"a":1,"b":2}}"#,
    );
}

#[test]
fn a_map_is_copied_into_itself_after_the_path_was_followed() {
    check_text(
        json!({"m": {"b": {}, "a": {"d": 1, "c": 1}}}),
        json!([{"op": "copy", "from": "/m", "path": "/m/a/e"}]),
        r#"{"m":{"a":{"c":1,"d":1,"e":{"a":{"c":1,"d":1},"b":{}}},"b":{}}}"#,
    );
}

#[test]
fn a_tested_value_is_sorted_as_a_whole() {
    check_text(
        json!({"m": {"b": [{"d": 1, "c": 1}], "a": 1}}),
        json!([{"op": "test", "path": "/m", "value": {"a": 1, "b": [{"c": 1, "d": 1}]}}]),
        r#"{"m":{"a":1,"b":[{"c":1,"d":1}]}}"#,
    );
}

/// Objects of maps and lists, without nulls: those are not distinguished from absence.
fn objects() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Tree::from),
        (0i64..9).prop_map(Tree::from),
        "[a-c~/]{0,3}".prop_map(Tree::from)
    ];
    let inner = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::from),
            prop::collection::btree_map("[a-d~/]{1,2}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map>().into()),
        ]
    });
    prop::collection::btree_map("[a-d~/]{1,2}", inner, 1..4)
        .prop_map(|map| map.into_iter().collect::<Map>().into())
}

/// Every pointer into an object, with its value.
fn pointers(node: &Tree, path: &str, into: &mut Vec<(String, Tree)>) {
    let children: Vec<(String, &Tree)> = match node {
        Tree::Map(map) => map
            .iter()
            .map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value))
            .collect(),
        Tree::List(items) => items
            .iter()
            .enumerate()
            .map(|(at, item)| (at.to_string(), item))
            .collect(),
        _ => return,
    };
    for (step, value) in children {
        let path = format!("{path}/{step}");
        into.push((path.clone(), value.clone()));
        pointers(value, &path, into);
    }
}

fn operation(op: &str, path: &str, value: &Tree) -> Tree {
    let members = [
        ("op", Tree::from(op)),
        ("path", path.into()),
        ("value", value.clone()),
    ];
    members.into_iter().collect::<Map>().into()
}

proptest! {
    #[test]
    fn the_value_at_a_path_passes_its_test_and_no_other_does(object in objects(), at: prop::sample::Index) {
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        let (path, value) = at.get(&all);
        let mut tested = object.clone();
        prop_assert!(apply(&mut tested, &vec![operation("test", path, value)].into()).is_ok());
        prop_assert!(equal(&tested, &object));
        let other = Tree::from(vec![value.clone(), Tree::from("other")]);
        prop_assert!(apply(&mut tested, &vec![operation("test", path, &other)].into()).is_err());
    }

    #[test]
    fn what_is_removed_can_be_added_again(object in objects(), at: prop::sample::Index) {
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        let (path, value) = at.get(&all);
        let mut changed = object.clone();
        apply(&mut changed, &vec![operation("remove", path, &Tree::Null)].into()).unwrap();
        prop_assert!(!equal(&changed, &object));
        apply(&mut changed, &vec![operation("add", path, value)].into()).unwrap();
        prop_assert!(equal(&changed, &object), "{changed:?}");
    }

    #[test]
    fn what_is_replaced_can_be_put_back(object in objects(), at: prop::sample::Index, value in objects()) {
        let mut all = Vec::new();
        pointers(&object, "", &mut all);
        let (path, old) = at.get(&all);
        let mut changed = object.clone();
        let there = vec![operation("replace", path, &value), operation("test", path, &value)];
        apply(&mut changed, &there.into()).unwrap();
        apply(&mut changed, &vec![operation("replace", path, old)].into()).unwrap();
        prop_assert!(equal(&changed, &object), "{changed:?}");
    }

    #[test]
    fn any_patch_is_applied_or_an_error(object in objects(), patch in objects()) {
        let patch = Tree::List(vec![patch]);
        let _ = apply(&mut object.clone(), &patch);
    }
}
