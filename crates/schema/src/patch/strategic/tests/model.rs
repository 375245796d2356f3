//! Strategic merging against a plain model, on random shapes.
//!
//! The model treats merged lists as sets and keyed sets, so it does not check their order; that is a separate property.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{apply_strategic, tree};
use crate::shape::{Cardinality, Field, FieldRules, FieldType, Shape, ShapeRef};
use crate::tree::Tree;
use crate::write::write_tree;

/// The key that elements of keyed lists have.
pub(super) const KEY: &str = "k";

/// The type of a field.
#[derive(Clone, Debug)]
pub(super) enum Spec {
    Scalar,
    Map,
    Struct(Fields),
    Atomic,
    Set,
    Keyed(Fields),
}

pub(super) type Fields = BTreeMap<String, Spec>;
pub(super) type Object = Map<String, Value>;

// === shapes ===

pub(super) fn specs() -> impl Strategy<Value = Fields> {
    let leaf = prop_oneof![
        Just(Spec::Scalar),
        Just(Spec::Map),
        Just(Spec::Atomic),
        Just(Spec::Set)
    ];
    let spec = leaf.prop_recursive(3, 16, 3, |inner| {
        let fields = prop::collection::btree_map("f[0-3]", inner, 1..4);
        prop_oneof![
            fields.clone().prop_map(Spec::Struct),
            fields.prop_map(Spec::Keyed)
        ]
    });
    prop::collection::btree_map("f[0-3]", spec, 1..4)
}

pub(super) fn shape(fields: &Fields) -> Shape {
    let mut members: Vec<Field> = fields.iter().map(|(name, spec)| field(name, spec)).collect();
    members.push(Field::string(KEY));
    Shape::new("random", false, members)
}

fn field(name: &str, spec: &Spec) -> Field {
    let nested = |fields| FieldType::Shape(ShapeRef::Own(Arc::new(shape(fields))));
    let (card, of, patch, merge_key) = match spec {
        Spec::Scalar => (Cardinality::One, FieldType::String, None, None),
        Spec::Map => (Cardinality::Map, FieldType::String, None, None),
        Spec::Struct(fields) => (Cardinality::One, nested(fields), None, None),
        Spec::Atomic => (Cardinality::List, FieldType::String, None, None),
        Spec::Set => (Cardinality::List, FieldType::String, Some("merge"), None),
        Spec::Keyed(fields) => (
            Cardinality::List,
            nested(fields),
            Some("merge,retainKeys"),
            Some(KEY),
        ),
    };
    let rules = FieldRules {
        patch_strategy: patch.map(Into::into),
        merge_key: merge_key.map(Into::into),
        ..FieldRules::default()
    };
    Field {
        cardinality: card,
        rules: Some(Box::new(rules)),
        ..Field::new(name, of)
    }
}

// === objects and patches ===

fn text() -> BoxedStrategy<Value> {
    "[a-e]".prop_map(Value::from).boxed()
}

fn unique_texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set("[a-f]", 0..4)
        .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

pub(super) fn object(fields: &Fields) -> BoxedStrategy<Object> {
    let members = fields
        .iter()
        .map(|(name, spec)| (Just(name.clone()), prop::option::of(value(spec))));
    let members: Vec<_> = members.collect();
    members
        .prop_map(|members| {
            members
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect()
        })
        .boxed()
}

fn value(spec: &Spec) -> BoxedStrategy<Value> {
    match spec {
        Spec::Scalar => text(),
        Spec::Map => prop::collection::btree_map("[a-c]", "[a-c]", 0..3)
            .prop_map(|map| json!(map))
            .boxed(),
        Spec::Struct(fields) => object(fields).prop_map(Value::Object).boxed(),
        Spec::Atomic => prop::collection::vec(text(), 0..3).prop_map(Value::from).boxed(),
        Spec::Set => unique_texts().prop_map(Value::from).boxed(),
        Spec::Keyed(fields) => keyed(object(fields)),
    }
}

fn keyed(element: BoxedStrategy<Object>) -> BoxedStrategy<Value> {
    let elements = unique_texts().prop_flat_map(move |keys| {
        keys.into_iter()
            .map(|key| (Just(key), element.clone()))
            .collect::<Vec<_>>()
    });
    let with_key = |(key, mut element): (String, Object)| {
        element.insert(KEY.to_owned(), key.into());
        Value::Object(element)
    };
    elements
        .prop_map(move |elements| elements.into_iter().map(with_key).collect())
        .boxed()
}

fn patch(fields: &Fields) -> BoxedStrategy<Object> {
    let members = fields
        .iter()
        .map(|(name, spec)| prop::option::weighted(0.7, member_patch(name, spec)));
    let members: Vec<_> = members.collect();
    let directive = prop_oneof![8 => Just(None), 1 => Just(Some("replace")), 1 => Just(Some("delete"))];
    (members, directive)
        .prop_map(|(members, directive)| {
            let directive = directive.map(|directive| ("$patch".to_owned(), Value::from(directive)));
            members.into_iter().flatten().chain(directive).collect()
        })
        .boxed()
}

fn member_patch(name: &str, spec: &Spec) -> BoxedStrategy<(String, Value)> {
    let set = match spec {
        Spec::Struct(fields) => patch(fields).prop_map(Value::Object).boxed(),
        // An element's own directive has another meaning than a map's: it deletes the element from the list.
        Spec::Keyed(fields) => keyed(element_patch(fields)),
        Spec::Map => prop::collection::btree_map("[a-c]", prop::option::of("[a-c]"), 0..3)
            .prop_map(|map| json!(map))
            .boxed(),
        other => value(other),
    };
    let (name, delete) = (name.to_owned(), format!("$deleteFromPrimitiveList/{name}"));
    let set = prop_oneof![6 => set, 1 => Just(Value::Null)].prop_map(move |value| (name.clone(), value));
    match spec {
        Spec::Set | Spec::Atomic => {
            let gone = unique_texts().prop_map(move |texts| (delete.clone(), Value::from(texts)));
            prop_oneof![3 => set, 1 => gone].boxed()
        }
        _ => set.boxed(),
    }
}

fn element_patch(fields: &Fields) -> BoxedStrategy<Object> {
    let plain = patch(fields).prop_filter("no directive of its own", |element| {
        !element.contains_key("$patch")
    });
    let gone = Just(
        json!({"$patch": "delete"})
            .as_object()
            .cloned()
            .unwrap_or_default(),
    );
    prop_oneof![4 => plain, 1 => gone].boxed()
}

// === the model ===

fn merge(fields: &Fields, object: &mut Object, patch: &Object) {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *object = patch.clone();
            object.shift_remove("$patch");
            return;
        }
        Some(_) => return object.clear(),
        None => {}
    }
    for (key, value) in patch {
        match key.strip_prefix("$deleteFromPrimitiveList/") {
            Some(name) => delete(object.get_mut(name), value),
            None => merge_member(&fields[key], object, key, value),
        }
    }
}

fn delete(list: Option<&mut Value>, gone: &Value) {
    if let Some(Value::Array(list)) = list {
        list.retain(|item| !gone.as_array().unwrap().contains(item));
    }
}

fn merge_member(spec: &Spec, object: &mut Object, key: &str, value: &Value) {
    if value.is_null() {
        object.shift_remove(key);
        return;
    }
    let Some(old) = object.get_mut(key) else {
        object.extend(cleaned(value).map(|value| (key.to_owned(), value)));
        return;
    };
    match (spec, old) {
        (Spec::Struct(fields), Value::Object(old)) => merge(fields, old, value.as_object().unwrap()),
        (Spec::Map, Value::Object(old)) => {
            old.extend(value.as_object().unwrap().clone());
            old.retain(|_, value| !value.is_null());
        }
        (Spec::Set, Value::Array(old)) => old.extend(value.as_array().unwrap().iter().cloned()),
        (Spec::Keyed(fields), Value::Array(old)) => merge_keyed(fields, old, value.as_array().unwrap()),
        (_, old) => *old = value.clone(),
    }
}

fn merge_keyed(fields: &Fields, old: &mut Vec<Value>, patch: &[Value]) {
    for element in patch {
        let at = old.iter().position(|other| other[KEY] == element[KEY]);
        match (element.get("$patch"), at) {
            (Some(_), Some(at)) => drop(old.remove(at)),
            (Some(_), None) => {}
            (None, Some(at)) => merge(
                &with_key(fields),
                old[at].as_object_mut().unwrap(),
                element.as_object().unwrap(),
            ),
            (None, None) => old.push(element.clone()),
        }
    }
}

pub(super) fn with_key(fields: &Fields) -> Fields {
    fields
        .iter()
        .map(|(name, spec)| (name.clone(), spec.clone()))
        .chain([(KEY.to_owned(), Spec::Scalar)])
        .collect()
}

/// A value of the patch under an absent key.
fn cleaned(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key("$patch") => None,
        Value::Object(map) => {
            let present = map.iter().filter(|(_, value)| !value.is_null());
            let kept = present.filter_map(|(key, value)| Some((key.clone(), cleaned(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(items.iter().filter_map(cleaned).collect()),
        scalar => Some(scalar.clone()),
    }
}

/// One form for semantically equal objects: merged lists sorted and deduplicated, no nulls.
fn canonical(spec: &Spec, value: &Value) -> Value {
    match (spec, value) {
        (Spec::Struct(fields) | Spec::Keyed(fields), Value::Object(map)) => {
            let present = map.iter().filter(|(_, value)| !value.is_null());
            let of = |key: &String| fields.get(key).cloned().unwrap_or(Spec::Atomic);
            Value::Object(
                present
                    .map(|(key, value)| (key.clone(), canonical(&of(key), value)))
                    .collect(),
            )
        }
        (Spec::Set, Value::Array(items)) => {
            let mut items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            items.sort_unstable();
            items.dedup();
            Value::from(items)
        }
        (Spec::Keyed(_), Value::Array(items)) => {
            let mut items: Vec<Value> = items.iter().map(|item| canonical(spec, item)).collect();
            items.sort_by_key(|item| item[KEY].as_str().map(str::to_owned));
            Value::from(items)
        }
        (_, value) => value.clone(),
    }
}

// === properties ===

fn ours(fields: &Fields, object: &Object, patch: &Object) -> Value {
    let mut merged = tree(&Value::Object(object.clone()));
    apply_strategic(&mut merged, &tree(&Value::Object(patch.clone())), &shape(fields)).unwrap();
    value_of(&merged)
}

pub(super) fn value_of(tree: &Tree) -> Value {
    let mut bytes = Vec::new();
    write_tree(tree, &mut bytes);
    serde_json::from_slice(&bytes).unwrap()
}

fn cases() -> impl Strategy<Value = (Fields, Object, Object)> {
    specs().prop_flat_map(|fields| {
        let (object, patch) = (object(&fields), patch(&fields));
        (Just(fields), object, patch)
    })
}

fn keys(list: &Value) -> Vec<&Value> {
    list.as_array()
        .into_iter()
        .flatten()
        .map(|element| &element[KEY])
        .collect()
}

/// Whether the first of two lists is in the same order as the second, as far as they share elements.
fn in_order(list: &[&Value], order: &[&Value]) -> bool {
    let indexes: Vec<usize> = list
        .iter()
        .filter_map(|item| order.iter().position(|other| other == item))
        .collect();
    indexes.is_sorted()
}

proptest! {
    #[test]
    fn merging_agrees_with_the_model((fields, object, patch) in cases()) {
        let merged = ours(&fields, &object, &patch);
        let mut expected = object.clone();
        merge(&fields, &mut expected, &patch);
        let root = Spec::Struct(fields);
        prop_assert_eq!(canonical(&root, &merged), canonical(&root, &Value::Object(expected)));
    }

    #[test]
    fn patched_elements_are_in_the_order_of_the_patch_and_others_in_their_own((fields, object, patch) in cases()) {
        prop_assume!(!patch.contains_key("$patch"));
        let merged = ours(&fields, &object, &patch);
        let lists = fields.iter().filter(|(_, spec)| matches!(spec, Spec::Keyed(_)));
        for (name, _) in lists.filter(|(name, _)| patch.get(*name).is_some_and(Value::is_array)) {
            let (result, live, named) = (keys(&merged[name]), &object.get(name), keys(&patch[name]));
            prop_assert!(in_order(&result, &named), "{result:?} is not in the order of {named:?}");
            let live = live.map(keys).unwrap_or_default();
            let server_only: Vec<&Value> = result.into_iter().filter(|key| !named.contains(key)).collect();
            prop_assert!(in_order(&server_only, &live), "{server_only:?} is not in the order of {live:?}");
        }
    }

    #[test]
    fn any_patch_is_applied_or_an_error((fields, object, _) in cases(), (_, _, patch) in cases()) {
        let mut merged = tree(&Value::Object(object));
        let _ = apply_strategic(&mut merged, &tree(&Value::Object(patch)), &shape(&fields));
    }
}
