//! Shapes as OpenAPI schemas.
//!
//! What is published follows from the shape alone: types and formats, required fields, defaults, enums, and the marks
//! by which lists and maps are merged.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use setpoint_schema::shape::{Card, Field, Gvk, ListType, MapType, Of, Shape};
use setpoint_schema::{Pack, Tree};

/// Which version of OpenAPI is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Second,
    Third,
}

/// The schemas of a document, each once.
#[derive(Debug)]
pub(super) struct Schemas {
    pub dialect: Dialect,
    by_name: BTreeMap<String, Value>,
}

impl Schemas {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            by_name: BTreeMap::new(),
        }
    }

    pub(super) fn into_map(self) -> Map<String, Value> {
        self.by_name.into_iter().collect()
    }

    /// A reference to a shape, whose schema is then in the document.
    pub(super) fn reference(&mut self, shape: &Shape) -> Value {
        let name = shape.openapi.as_ref().unwrap_or(&shape.id).to_string();
        let place = match self.dialect {
            Dialect::Second => format!("#/definitions/{name}"),
            Dialect::Third => format!("#/components/schemas/{name}"),
        };
        if !self.by_name.contains_key(&name) {
            self.by_name.insert(name.clone(), Value::Null);
            let schema = self.schema(shape);
            self.by_name.insert(name, schema);
        }
        json!({"$ref": place})
    }

    /// A reference to a built-in kind, if it is known.
    pub(super) fn reference_to(&mut self, gvk: (&str, &str, &str)) -> Option<Value> {
        let shape = Pack::builtin().shape_of(gvk.0, gvk.1, gvk.2)?;
        Some(self.reference(shape))
    }

    fn schema(&mut self, shape: &Shape) -> Value {
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for member in shape.members() {
            properties.insert(member.name.to_string(), self.property(member));
            if member.required {
                required.push(member.name.as_str().into());
            }
        }
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), properties.into());
        }
        if let Some(gvk) = &shape.gvk {
            schema.insert(
                "x-kubernetes-group-version-kind".to_owned(),
                json!([gvk_mark(gvk)]),
            );
        }
        mark_map_type(&mut schema, shape.map_type);
        schema.into()
    }

    fn property(&mut self, field: &Field) -> Value {
        let element = self.value(field);
        let mut property = match field.card {
            Card::One => match (element, default_of(field)) {
                (Value::Object(element), None) => element,
                (element, default) => self.with_default(element, default),
            },
            Card::List => object([("type", "array".into()), ("items", element)]),
            Card::Map => object([("type", "object".into()), ("additionalProperties", element)]),
        };
        mark(&mut property, field);
        property.into()
    }

    /// A reference cannot have a default of its own in version 3, so it is wrapped there.
    fn with_default(&self, element: Value, default: Option<Value>) -> Map<String, Value> {
        let mut property = match element {
            Value::Object(element) if element.contains_key("$ref") && self.dialect == Dialect::Third => {
                object([("allOf", json!([element]))])
            }
            Value::Object(element) => element,
            other => object([("allOf", json!([other]))]),
        };
        if let Some(default) = default {
            property.insert("default".to_owned(), default);
        }
        property
    }

    /// The schema of one value of a field.
    fn value(&mut self, field: &Field) -> Value {
        if field.wrap {
            return json!({"type": "array", "items": {"type": "string"}});
        }
        let mut value = match &field.of {
            Of::Shape(link) => return self.reference(link.shape()),
            Of::String | Of::Duration => json!({"type": "string"}),
            Of::Bool => json!({"type": "boolean"}),
            Of::Int32 => json!({"type": "integer", "format": "int32"}),
            Of::Int64 => json!({"type": "integer", "format": "int64"}),
            Of::Double => json!({"type": "number", "format": "double"}),
            Of::Bytes => json!({"type": "string", "format": "byte"}),
            Of::Time | Of::MicroTime => json!({"type": "string", "format": "date-time"}),
            Of::Quantity => self.one_of("number"),
            Of::IntOrString => self.int_or_string(),
            Of::RawJson => json!({"type": "object"}),
            Of::SchemaOrBool(_) | Of::SchemaOrArray(_) | Of::SchemaOrStrings(_) => json!({}),
        };
        if let Some(values) = field
            .enumeration()
            .and_then(|name| Pack::builtin().enum_values(name))
        {
            value["enum"] = json!(values);
        }
        value
    }

    fn one_of(&self, other: &str) -> Value {
        match self.dialect {
            Dialect::Second => json!({"type": "string"}),
            Dialect::Third => json!({"oneOf": [{"type": "string"}, {"type": other}]}),
        }
    }

    fn int_or_string(&self) -> Value {
        match self.dialect {
            Dialect::Second => json!({"type": "string", "format": "int-or-string"}),
            Dialect::Third => {
                json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"})
            }
        }
    }
}

/// What is published as default: the one that is filled in, or else what shows when the field is unset.
fn default_of(field: &Field) -> Option<Value> {
    if let Some(default) = &field.default {
        return plain(default);
    }
    let silent = field.ptr || matches!(field.of, Of::Quantity | Of::IntOrString | Of::Duration);
    field.zero.as_ref().filter(|_| !silent).and_then(plain)
}

fn plain(tree: &Tree) -> Option<Value> {
    serde_json::to_value(tree).ok().filter(|value| !value.is_null())
}

/// How lists and maps are merged.
fn mark(property: &mut Map<String, Value>, field: &Field) {
    let list_type = field.list_type.map(|list_type| match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    });
    if let Some(list_type) = list_type {
        property.insert("x-kubernetes-list-type".to_owned(), list_type.into());
    }
    if !field.list_keys.is_empty() {
        let keys: Vec<&str> = field.list_keys.iter().map(|key| key.as_str()).collect();
        property.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
    }
    mark_map_type(property, field.map_type);
    if let Some(strategy) = field.patch() {
        property.insert("x-kubernetes-patch-strategy".to_owned(), strategy.into());
    }
    if let Some(key) = field.merge_key() {
        property.insert("x-kubernetes-patch-merge-key".to_owned(), key.into());
    }
}

fn mark_map_type(schema: &mut Map<String, Value>, map_type: Option<MapType>) {
    let name = match map_type {
        None => return,
        Some(MapType::Atomic) => "atomic",
        Some(MapType::Granular) => "granular",
    };
    schema.insert("x-kubernetes-map-type".to_owned(), name.into());
}

fn gvk_mark(gvk: &Gvk) -> Value {
    json!({"group": gvk.group.as_str(), "kind": gvk.kind.as_str(), "version": gvk.version.as_str()})
}

fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
