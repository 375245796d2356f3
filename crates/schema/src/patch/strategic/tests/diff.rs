//! The diff of two objects, applied as a patch to the first, makes the second: exactly, the order of lists included.
//!
//! The patch is made as clients make it: `null` and `$patch: delete` for deletions, `$deleteFromPrimitiveList` for items
//! of sets, `$setElementOrder` beside every merged list, `$retainKeys` beside structs.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::model::{Fields, KEY, Object, Spec, object, shape, specs, value_of, with_key};
use super::{apply_strategic, tree};

/// The patch from `old` to `new`.
fn diff(fields: &Fields, old: &Object, new: &Object) -> Object {
    let mut patch = Map::new();
    for (name, spec) in fields {
        match (old.get(name), new.get(name)) {
            (None, None) => {}
            (Some(_), None) => drop(patch.insert(name.clone(), Value::Null)),
            (None, Some(new)) => drop(patch.insert(name.clone(), new.clone())),
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => diff_member((name, spec), old, new, &mut patch),
        }
    }
    patch
}

fn diff_member((name, spec): (&str, &Spec), old: &Value, new: &Value, patch: &mut Object) {
    match spec {
        Spec::Struct(fields) => {
            let (old, new) = (old.as_object().unwrap(), new.as_object().unwrap());
            let mut below = diff(fields, old, new);
            let kept: Vec<&String> = new.keys().collect();
            below.insert("$retainKeys".to_owned(), json!(kept));
            patch.insert(name.to_owned(), below.into());
        }
        Spec::Map => drop(patch.insert(name.to_owned(), diff_map(old, new))),
        Spec::Set => diff_set(name, old, new, patch),
        Spec::Keyed(fields) => diff_keyed(name, fields, (old, new), patch),
        Spec::Scalar | Spec::Atomic => drop(patch.insert(name.to_owned(), new.clone())),
    }
}

fn diff_map(old: &Value, new: &Value) -> Value {
    let (old, new) = (old.as_object().unwrap(), new.as_object().unwrap());
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    let set = new.iter().map(|(key, value)| (key.clone(), value.clone()));
    Value::Object(gone.chain(set).collect())
}

fn diff_set(name: &str, old: &Value, new: &Value, patch: &mut Object) {
    let (old, new) = (old.as_array().unwrap(), new.as_array().unwrap());
    let without = |left: &[Value], right: &[Value]| -> Vec<Value> {
        left.iter()
            .filter(|item| !right.contains(item))
            .cloned()
            .collect()
    };
    let (gone, come) = (without(old, new), without(new, old));
    if !gone.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), gone.into());
    }
    if !come.is_empty() {
        patch.insert(name.to_owned(), come.into());
    }
    patch.insert(format!("$setElementOrder/{name}"), json!(new));
}

fn diff_keyed(name: &str, fields: &Fields, (old, new): (&Value, &Value), patch: &mut Object) {
    let find = |list: &Value, key: &Value| -> Option<Object> {
        let mut items = list.as_array().unwrap().iter();
        items.find(|item| item[KEY] == *key)?.as_object().cloned()
    };
    let mut items = Vec::new();
    for item in new.as_array().unwrap() {
        let item = item.as_object().unwrap();
        match find(old, &item[KEY]) {
            None => items.push(Value::Object(item.clone())),
            Some(old) => {
                let mut below = diff(&with_key(fields), &old, item);
                below.insert(KEY.to_owned(), item[KEY].clone());
                items.push(below.into());
            }
        }
    }
    for item in old.as_array().unwrap() {
        if find(new, &item[KEY]).is_none() {
            items.push(json!({KEY: item[KEY], "$patch": "delete"}));
        }
    }
    let order: Vec<Value> = new
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!({KEY: item[KEY]}))
        .collect();
    patch.insert(name.to_owned(), items.into());
    patch.insert(format!("$setElementOrder/{name}"), order.into());
}

fn pairs() -> impl Strategy<Value = (Fields, Object, Object)> {
    specs().prop_flat_map(|fields| {
        let (old, new) = (object(&fields), object(&fields));
        (Just(fields), old, new)
    })
}

/// The value with its keys sorted: their order does not matter.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            Value::Object(
                keys.into_iter()
                    .map(|key| (key.clone(), sorted(&map[key])))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        scalar => scalar.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_diff_of_two_objects_makes_the_second_of_the_first((fields, old, new) in pairs()) {
        let patch = diff(&fields, &old, &new);
        let mut merged = tree(&Value::Object(old));
        apply_strategic(&mut merged, &tree(&Value::Object(patch.clone())), &shape(&fields)).unwrap();
        prop_assert_eq!(sorted(&value_of(&merged)), sorted(&Value::Object(new)), "by {:?}", patch);
    }
}
