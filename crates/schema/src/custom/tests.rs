//! Pruning, defaulting and validation by a schema, in rows.

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
    let object = tree(serde_json::json!({"spec": value}));
    let found: Vec<String> = spec(properties)
        .validate(&object, None)
        .iter()
        .map(print)
        .collect();
    assert_eq!(found, expected);
}

fn print(report: &SchemaViolation) -> String {
    let path = report.path.as_deref().unwrap_or("<nil>");
    match &report.kind {
        ViolationKind::Invalid { detail, .. } | ViolationKind::TypeInvalid { detail, .. } => {
            format!("{path}: {detail}")
        }
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
fn unknown_fields_are_dropped_unless_preserved() {
    let known = spec(
        serde_json::json!({"a": {"type": "string"}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}),
    );
    let mut object =
        tree(serde_json::json!({"kind": "K", "spec": {"a": "x", "b": 1, "free": {"z": 1}}, "extra": 1}));
    assert_eq!(known.prune(&mut object), ["extra", "spec.b"]);
    assert_eq!(
        object,
        tree(serde_json::json!({"kind": "K", "spec": {"a": "x", "free": {"z": 1}}}))
    );
}

#[test]
fn defaults_are_filled_in_where_there_is_a_parent() {
    let with = spec(
        serde_json::json!({"a": {"type": "string", "default": "x"}, "b": {"type": "object", "default": {}, "properties": {"c": {"type": "integer", "default": 1}}}}),
    );
    let mut object = tree(serde_json::json!({"spec": {}}));
    with.apply_defaults(&mut object).unwrap();
    assert!(object.semantic_eq(&tree(serde_json::json!({"spec": {"a": "x", "b": {"c": 1}}}))));
    let mut without = tree(serde_json::json!({}));
    with.apply_defaults(&mut without).unwrap();
    assert_eq!(without, tree(serde_json::json!({})));
}

#[test]
fn an_unchanged_value_is_not_validated_again() {
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

#[test]
fn a_string_with_a_format_is_any_scalar_for_apply() {
    let shape = spec(serde_json::json!({
        "plain": {"type": "string"}, "bytes": {"type": "string", "format": "byte"},
        "address": {"type": "string", "format": "ipv4"}, "own": {"type": "string", "format": "own"},
    }))
    .to_shape("Thing");
    let types = ["plain", "bytes", "address", "own"].map(|name| {
        let field = shape.at(&["spec"]).and_then(|spec| spec.member(name));
        matches!(field.unwrap().value_type, crate::shape::FieldType::String)
    });
    assert_eq!(types, [true, true, false, false]);
}

#[track_caller]
fn check_duplicates(properties: serde_json::Value, value: serde_json::Value, expected: &[&str]) {
    let object = tree(serde_json::json!({"spec": value}));
    let found = spec(properties).duplicates(&object);
    assert_eq!(found.iter().map(print).collect::<Vec<_>>(), expected);
}

#[test]
fn an_item_of_a_set_or_a_keyed_list_is_unique() {
    let set = serde_json::json!({"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}});
    check_duplicates(set.clone(), serde_json::json!({"l": ["a", "b"]}), &[]);
    check_duplicates(
        set,
        serde_json::json!({"l": ["a", "b", "a", "a"]}),
        &[r#"spec.l[2]: Duplicate { value: Str("a") }"#],
    );
    let keyed = serde_json::json!({"m": {"type": "object", "additionalProperties": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["p", "q"],
        "items": {"type": "object", "properties": {"p": {"type": "integer"}, "q": {"type": "string"}}},
    }}});
    let lists = serde_json::json!({"m": {"x": [{"p": 1, "q": "a"}, {"p": 1}, {"q": "a", "p": 1, "r": 2}], "y": [{"p": 1}, 5]}});
    let found = spec(keyed).duplicates(&tree(serde_json::json!({"spec": lists})));
    let paths: Vec<_> = found
        .iter()
        .map(|report| report.path.as_deref().unwrap())
        .collect();
    assert_eq!(paths, ["spec.m[x][2]", "spec.m[y][1]"]);
}

#[test]
fn an_unchanged_violation_is_tolerated_if_the_value_has_a_schema() {
    let rules = spec(serde_json::json!({
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "maxItems": 1,
              "items": {"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer", "minimum": 5}}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "maxProperties": 1},
    }));
    let old =
        tree(serde_json::json!({"spec": {"l": [{"k": "a", "n": 1}, {"k": "b"}], "open": {"x": 1, "y": 1}}}));
    let reordered =
        tree(serde_json::json!({"spec": {"l": [{"k": "b"}, {"n": 1, "k": "a"}], "open": {"x": 1, "y": 1}}}));
    let found: Vec<String> = rules.validate(&reordered, Some(&old)).iter().map(print).collect();
    assert_eq!(found, ["spec.open: TooMany { count: 2, max: 1 }"]);
}

#[test]
fn a_forbidden_null_is_dropped_or_defaulted_at_any_depth() {
    let rules = spec(serde_json::json!({
        "a": {"type": "string"},
        "b": {"type": "string", "nullable": true},
        "c": {"type": "string", "default": "c"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "additionalProperties": true},
        "list": {"type": "array", "items": {"type": "string", "default": "i"}},
    }));
    let mut object = tree(serde_json::json!({"spec": {
        "a": null, "b": null, "c": null, "map": {"x": null}, "any": {"x": null}, "list": [null],
    }}));
    rules.prune_non_nullable_nulls(&mut object);
    rules.apply_defaults(&mut object).unwrap();
    let mut text = Vec::new();
    crate::write::write_tree(&object, &mut text);
    assert_eq!(
        String::from_utf8(text).unwrap(),
        r#"{"spec":{"b":null,"c":"c","map":{},"any":{"x":null},"list":["i"]}}"#
    );
}

#[test]
fn defaults_that_multiply_in_a_list_are_limited() {
    let large = spec(
        serde_json::json!({"l": {"type": "array", "items": {"type": "object", "properties": {
            "a": {"type": "string", "default": "x".repeat(100_000)},
        }}}}),
    );
    let object = |items: usize| tree(serde_json::json!({"spec": {"l": vec![serde_json::json!({}); items]}}));
    assert_eq!(large.apply_defaults(&mut object(30)), Ok(()));
    assert_eq!(large.apply_defaults(&mut object(20_000)), Err(DefaultsTooLarge));
}

/// Enough items that comparing each with each would take hours.
const MANY: i64 = 30_000;

#[test]
fn the_items_of_a_long_list_are_correlated_in_linear_time() {
    let rules = spec(serde_json::json!({"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}},
    }}));
    let object = |numbers: &mut dyn Iterator<Item = i64>| {
        let items: Vec<_> = numbers.map(|n| serde_json::json!({"n": n})).collect();
        tree(serde_json::json!({"spec": {"l": items}}))
    };
    let (old, new) = (object(&mut (0..MANY)), object(&mut (0..MANY).rev()));
    assert_eq!(rules.validate(&new, Some(&old)), []);
    assert_eq!(rules.duplicates(&new), []);
}

#[test]
fn many_enumerated_values_and_many_properties_are_looked_up() {
    let names: Vec<String> = (0..MANY).map(|at| format!("n{at}")).collect();
    let properties: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), serde_json::json!({"type": "string", "enum": ["a"]})))
        .collect();
    let values: serde_json::Map<_, _> = names.iter().map(|name| (name.clone(), "a".into())).collect();
    check(properties.into(), values.into(), &[]);
    let rules =
        serde_json::json!({"l": {"type": "array", "items": {"type": "string", "enum": names.clone()}}});
    check(rules, serde_json::json!({"l": names}), &[]);
}

#[test]
fn violations_are_reported_up_to_a_limit() {
    let rules = spec(serde_json::json!({"l": {"type": "array", "items": {"type": "string", "enum": ["a"]}}}));
    let object = tree(serde_json::json!({"spec": {"l": vec!["b"; 100_000]}}));
    assert_eq!(rules.validate(&object, None).len(), 10_000);
}

#[test]
fn long_paths_are_not_copied_for_every_field_below_them() {
    let key = "k".repeat(1_000_000);
    let fields: serde_json::Map<_, _> = (0..MANY).map(|at| (format!("f{at}"), 1.into())).collect();
    let rules = spec(
        serde_json::json!({"m": {"type": "object", "additionalProperties": {
            "type": "object", "additionalProperties": {"type": "string"},
        }}}),
    );
    let mut object = tree(serde_json::json!({"spec": {"m": {key: fields}}}));
    assert!(rules.prune(&mut object).is_empty());
    assert!(rules.validate(&object, None).len() < 10);
}

#[test]
fn the_nearest_of_many_alternatives_is_reported() {
    let patterns: Vec<_> = (0..1000)
        .map(|at| serde_json::json!({"pattern": format!("^{at}$"), "maxLength": at}))
        .chain([serde_json::json!({"pattern": "^y$"})])
        .collect();
    let rules = spec(serde_json::json!({"s": {"type": "string", "anyOf": patterns}}));
    let object = tree(serde_json::json!({"spec": {"s": "x".repeat(1_000_000)}}));
    assert_eq!(rules.validate(&object, None).len(), 2);
}
