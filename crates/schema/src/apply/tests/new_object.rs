//! The managed fields of a new object, written at once, equal those that an update sets and the writer writes.

use proptest::prelude::*;
use serde_json::Value;

use super::custom::kind_shape;
use super::property::{object, schema};
use crate::apply::{FieldManager, FieldSet, managed_fields_of_new, update};
use crate::pack::Pack;
use crate::shape::{Cardinality, Field, FieldType, Shape};
use crate::tree::{Map, Tree, to_tree};
use crate::write::write_member;

/// How deep structs are nested in an object with all fields.
const MAX_DEPTH: usize = 7;

#[track_caller]
fn check(shape: &Shape, object: &Tree) {
    let reset = FieldSet::of_fields([["status"].as_slice(), &["spec", "nodeName"]]);
    let manager = FieldManager {
        name: "a \"manager\"",
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset: &reset,
        converter: None,
    };
    let mut updated = object.clone();
    update(&Tree::Map(Map::default()), &mut updated, shape, &manager);
    let written = managed_fields_of_new(object, shape, &manager);
    let written = written.map(|json| String::from_utf8(json).unwrap());
    assert_eq!(written, managers(&updated), "{}", shape.id);
}

/// The managed fields of an object in canonical JSON.
fn managers(object: &Tree) -> Option<String> {
    let value = object.at(&["metadata", "managedFields"])?;
    let pod = Pack::builtin().shape_of("", "v1", "Pod").unwrap();
    let field = pod.at(&["metadata"]).unwrap().member("managedFields").unwrap();
    let mut json = Vec::new();
    write_member(field, value, &mut json);
    let text = String::from_utf8(json).unwrap();
    Some(text.strip_prefix("\"managedFields\":").unwrap().to_owned())
}

/// An object with those of its fields that a function selects.
fn filled(shape: &Shape, depth: usize, is_selected: &impl Fn(&str) -> bool) -> Tree {
    let members = shape.members().iter().filter(|member| is_selected(&member.name));
    let fields = members.filter(|member| member.name != "managedFields");
    let values = fields.filter_map(|field| Some((field.name.clone(), value(field, depth, is_selected)?)));
    Tree::Map(values.collect())
}

fn value(field: &Field, depth: usize, is_selected: &impl Fn(&str) -> bool) -> Option<Tree> {
    let element = |number: i64| element(field, number, depth, is_selected);
    Some(match field.cardinality {
        Cardinality::One => element(1)?,
        // The first two are duplicates, and the last comes before them.
        Cardinality::List => Tree::List(vec![element(2)?, element(2)?, element(1)?]),
        Cardinality::Map => ["b", "a\"b", "c/d"]
            .into_iter()
            .map(|key| Some((key, element(1)?)))
            .collect::<Option<Map>>()?
            .into(),
    })
}

fn element(field: &Field, number: i64, depth: usize, is_selected: &impl Fn(&str) -> bool) -> Option<Tree> {
    Some(match &field.value_type {
        FieldType::Shape(_) if depth == MAX_DEPTH => return None,
        FieldType::Shape(reference) => {
            let mut item = filled(reference.shape(), depth + 1, is_selected);
            for key in &field.list_keys {
                let is_number = reference
                    .shape()
                    .member(key)
                    .is_some_and(|key| matches!(key.value_type, FieldType::Int32 | FieldType::Int64));
                let value = match is_number {
                    true => Tree::Int(number),
                    false => format!("k{number}").into(),
                };
                item.set(&[key.as_str()], value);
            }
            item
        }
        FieldType::Bool => Tree::Bool(true),
        FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString => Tree::Int(number),
        FieldType::Double => Tree::Float(1.5),
        FieldType::RawJson => Tree::Map([("raw", number as i32)].into_iter().collect()),
        FieldType::Time | FieldType::MicroTime => "2026-01-01T00:00:00Z".into(),
        _ => format!("<text> {number}").into(),
    })
}

#[test]
fn they_are_those_of_an_update_for_every_builtin_kind() {
    let pack = Pack::builtin();
    for (_, id) in pack.kinds() {
        let shape = pack.shape(id);
        if shape
            .at(&["metadata"])
            .is_some_and(|metadata| metadata.member("managedFields").is_some())
        {
            check(shape, &filled(shape, 0, &|_| true));
            check(
                shape,
                &filled(shape, 0, &|name| name.len() % 2 == 0 || name == "metadata"),
            );
            check(
                shape,
                &filled(shape, 0, &|name| name.len() % 3 != 0 && name != "status"),
            );
            check(shape, &filled(shape, 0, &|name| name == "spec"));
        }
    }
}

#[test]
fn nothing_below_a_value_is_owned_that_every_object_has() {
    let is_plain = |zero: &Tree| match zero {
        Tree::Map(map) => map.is_empty(),
        Tree::List(items) => items.is_empty(),
        _ => true,
    };
    for shape in Pack::builtin().shapes() {
        for member in shape.members() {
            assert!(
                member.zero.as_ref().is_none_or(is_plain),
                "{}.{}",
                shape.id,
                member.name
            );
        }
    }
}

proptest! {
    #[test]
    fn they_are_those_of_an_update_for_any_schema((schema, object) in any_object()) {
        let schema = serde_json::json!({"properties": schema});
        check(&kind_shape(&schema), &to_tree(&Value::Object(object)).unwrap());
    }
}

/// The properties of a schema and an object of it.
fn any_object() -> impl Strategy<Value = (Value, serde_json::Map<String, Value>)> {
    let named = prop::collection::btree_map(
        prop::sample::select(vec!["spec", "status", "data"]),
        schema(),
        1..=3,
    );
    named.prop_flat_map(|properties| {
        let schema = serde_json::json!({"properties": properties});
        let object = object(&schema);
        (Just(schema["properties"].clone()), object)
    })
}
