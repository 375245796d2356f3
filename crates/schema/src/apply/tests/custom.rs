//! Shapes for tests: from the schema of a custom kind, with the fields that server-side apply looks at.

use std::sync::Arc;

use crate::pack::Pack;
use crate::shape::{Card, Field, Link, ListType, MapType, Of, Shape};
use crate::tree::{Tree, to_tree};
use serde_json::Value;

/// The shape of a custom kind, given the schema of one of its versions.
pub(super) fn kind_shape(schema: &Value) -> Shape {
    let meta = Pack::builtin()
        .shape_of("", "v1", "ConfigMap")
        .unwrap()
        .member("metadata")
        .unwrap();
    let mut fields = vec![meta.clone()];
    fields.extend(fields_of(schema));
    Shape::new("custom", true, fields)
}

fn fields_of(schema: &Value) -> Vec<Field> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .filter(|(name, _)| *name != "metadata")
        .map(|(name, schema)| field(name, schema))
        .collect()
}

fn field(name: &str, schema: &Value) -> Field {
    let mut field = match schema["type"].as_str() {
        Some("array") => list(name, schema),
        Some("object") if schema["additionalProperties"].is_object() => {
            let mut map = self::field(name, &schema["additionalProperties"]);
            map.card = Card::Map;
            map
        }
        _ => Field::new(name, scalar_or_struct(schema)),
    };
    field.ptr = true;
    field.default = schema.get("default").map(|default| to_tree(default).unwrap());
    if schema["x-kubernetes-map-type"] == "atomic" {
        field.map_type = Some(MapType::Atomic);
    }
    field
}

fn list(name: &str, schema: &Value) -> Field {
    let mut list = field(name, &schema["items"]);
    list.card = Card::List;
    list.list_type = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(ListType::Set),
        Some("map") => Some(ListType::Map),
        _ => Some(ListType::Atomic),
    };
    let keys = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten();
    list.list_keys = keys.map(|key| key.as_str().unwrap().into()).collect();
    list
}

fn scalar_or_struct(schema: &Value) -> Of {
    match schema["type"].as_str() {
        _ if schema["x-kubernetes-preserve-unknown-fields"] == true => Of::RawJson,
        Some("object") => Of::Shape(Link::Own(Arc::new(Shape::new("part", false, fields_of(schema))))),
        Some("integer") => Of::Int64,
        Some("number") => Of::Double,
        Some("boolean") => Of::Bool,
        Some("string") => Of::String,
        _ => Of::IntOrString,
    }
}

/// A tree from JSON text.
#[track_caller]
pub(super) fn tree(text: &str) -> Tree {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
