//! OpenAPI v3 schemas of shapes.
//!
//! A schema follows from the shape alone: types and formats, required fields, defaults, enums, and the extensions for the
//! merging of lists and maps. The API server derives OpenAPI v2 from v3.

pub mod descriptions;
mod version;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::pack::Pack;
use crate::shape::{Cardinality, Field, FieldType, Gvk, ListType, MapType, Shape};
use crate::tree::Tree;

pub use version::{DEFINITIONS, OpenApiVersion};

/// The prefix of a reference to a schema.
pub const SCHEMAS: &str = "#/components/schemas/";

/// The prefix of the published names of built-in types.
const BUILTIN: &str = "io.k8s.";

/// The published name of the metadata of objects.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

// Types that are not objects in JSON but are published under their own name.
const TIME: &str = "apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "apimachinery.pkg.apis.meta.v1.Duration";
const QUANTITY: &str = "apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "apimachinery.pkg.util.intstr.IntOrString";
const RAW_EXTENSION: &str = "apimachinery.pkg.runtime.RawExtension";
const ANY_JSON: &str = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";

/// The schemas of one OpenAPI document, each once.
#[derive(Debug)]
pub struct Schemas {
    /// The group and version of the OpenAPI document: kinds that exist in every group are listed with it.
    group_version: (String, String),
    by_name: BTreeMap<String, Value>,
}

impl Schemas {
    /// The schemas of the OpenAPI document of one group and version.
    pub fn new(group: &str, version: &str) -> Self {
        Self {
            group_version: (group.to_owned(), version.to_owned()),
            by_name: BTreeMap::new(),
        }
    }

    pub fn into_map(self) -> Map<String, Value> {
        self.by_name.into_iter().collect()
    }

    /// A reference to a shape, whose schema is added if it is not there yet.
    pub fn reference(&mut self, shape: &Shape) -> Value {
        let name = shape.openapi_name.as_ref().unwrap_or(&shape.id).to_string();
        if !self.by_name.contains_key(&name) {
            // The name is reserved first: a shape may refer to itself.
            self.by_name.insert(name.clone(), Value::Null);
            let schema = self.schema(shape);
            self.by_name.insert(name.clone(), schema);
        }
        reference_object(&name)
    }

    /// A reference to a built-in kind, if it is known.
    pub fn reference_to(&mut self, group: &str, version: &str, kind: &str) -> Option<Value> {
        let shape = Pack::builtin().shape_of(group, version, kind)?;
        Some(self.reference(shape))
    }

    /// A reference to the metadata of a core kind or list: custom ones have the same.
    pub fn metadata_of(&mut self, kind: &str) -> Value {
        let any = Pack::builtin().shape_of("", "v1", kind);
        let metadata = any.and_then(|shape| shape.member("metadata")?.shape());
        self.reference(metadata.expect("core kinds and their lists have metadata"))
    }

    /// A reference to a schema without a shape.
    pub fn reference_as(&mut self, name: &str, schema: impl FnOnce() -> Value) -> Value {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_owned(), schema());
        }
        reference_object(name)
    }

    /// Describes a list by the kind and the plural of its items, where it has no description yet.
    pub fn describe_list(&mut self, reference: &Value, kind: &str, plural: &str) {
        let name = reference["$ref"]
            .as_str()
            .and_then(|name| name.strip_prefix(SCHEMAS));
        let list = name.and_then(|name| self.by_name.get_mut(name)?.as_object_mut());
        let Some(list) = list else {
            return;
        };
        add_description(
            list,
            &format!("List of objects of kind {kind}, with the metadata of a list."),
        );
        if let Some(items) = list
            .get_mut("properties")
            .and_then(|properties| properties.get_mut("items")?.as_object_mut())
        {
            add_description(items, &format!("List of {plural}."));
        }
    }

    fn schema(&mut self, shape: &Shape) -> Value {
        let mut schema = object([("type", "object".into())]);
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
            let extension = self.gvk_extension(gvk, shape.any_group);
            schema.insert("x-kubernetes-group-version-kind".to_owned(), extension);
        }
        if let Some(unions) = shape.unions.as_ref().and_then(plain) {
            schema.insert("x-kubernetes-unions".to_owned(), unions);
        }
        add_map_type(&mut schema, shape.map_type);
        schema.into()
    }

    /// The group, version and kind extension. A kind of every group is listed with its own and that of these schemas.
    fn gvk_extension(&self, gvk: &Gvk, any_group: bool) -> Value {
        let entry = |group: &str, version: &str| json!({"group": group, "kind": gvk.kind.as_str(), "version": version});
        let own = entry(&gvk.group, &gvk.version);
        let (group, version) = &self.group_version;
        match any_group && (group.as_str(), version.as_str()) != (gvk.group.as_str(), gvk.version.as_str()) {
            true => json!([own, entry(group, version)]),
            false => json!([own]),
        }
    }

    fn property(&mut self, field: &Field) -> Value {
        let element = self.value(field);
        let mut property = match field.cardinality {
            Cardinality::One => as_property(element),
            Cardinality::List => object([("type", "array".into()), ("items", element)]),
            Cardinality::Map => object([("type", "object".into()), ("additionalProperties", element)]),
        };
        if field.cardinality == Cardinality::One
            && let Some(default) = default_of(field)
        {
            property.insert("default".to_owned(), default);
        }
        add_merge_extensions(&mut property, field);
        property.into()
    }

    /// The schema of one value of a field.
    fn value(&mut self, field: &Field) -> Value {
        if field.wrap {
            return json!({"type": "array", "items": {"type": "string"}});
        }
        let mut value = match &field.value_type {
            FieldType::Shape(reference) => return self.reference(reference.shape()),
            FieldType::String => json!({"type": "string"}),
            FieldType::Bool => json!({"type": "boolean"}),
            FieldType::Int32 => json!({"type": "integer", "format": "int32"}),
            FieldType::Int64 => json!({"type": "integer", "format": "int64"}),
            FieldType::Double => json!({"type": "number", "format": "double"}),
            FieldType::Bytes => json!({"type": "string", "format": "byte"}),
            other => return self.named_type(other, field),
        };
        let values = field
            .enum_name()
            .and_then(|name| Pack::builtin().enum_values(name));
        if let Some(values) = values {
            let mut values = values.to_vec();
            values.sort_unstable();
            value["enum"] = json!(values);
        }
        value
    }

    /// A reference to a type that is not an object but is published under a name.
    fn named_type(&mut self, field_type: &FieldType, field: &Field) -> Value {
        let (id, schema) = match field_type {
            FieldType::Time => (TIME, json!({"type": "string", "format": "date-time"})),
            FieldType::MicroTime => (MICRO_TIME, json!({"type": "string", "format": "date-time"})),
            FieldType::Duration => (DURATION, json!({"type": "string"})),
            FieldType::Quantity => (
                QUANTITY,
                json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ),
            FieldType::IntOrString => (
                INT_OR_STRING,
                json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            ),
            FieldType::SchemaOrBool(_) => ("JSONSchemaPropsOrBool", json!({})),
            FieldType::SchemaOrArray(_) => ("JSONSchemaPropsOrArray", json!({})),
            FieldType::SchemaOrStrings(_) => ("JSONSchemaPropsOrStringArray", json!({})),
            _ => match raw_name(field) {
                ANY_JSON => (ANY_JSON, json!({})),
                id => (id, json!({"type": "object"})),
            },
        };
        let name = match id.contains('.') {
            true => format!("{BUILTIN}{id}"),
            false => format!("{BUILTIN}{ANY_JSON}").replace(".JSON", &format!(".{id}")),
        };
        self.reference_as(&name, || schema)
    }
}

fn reference_object(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMAS}{name}")})
}

/// The raw type of the field.
fn raw_name(field: &Field) -> &str {
    field
        .rules
        .as_ref()
        .and_then(|rules| rules.raw_type.as_deref())
        .unwrap_or(RAW_EXTENSION)
}

/// A value as a property. No keyword may be beside a reference, so it is wrapped in `allOf`.
fn as_property(element: Value) -> Map<String, Value> {
    match element {
        Value::Object(element) if !element.contains_key("$ref") => element,
        reference => object([("allOf", json!([reference]))]),
    }
}

/// The published default: the field's own, or else what is written when the field is unset.
fn default_of(field: &Field) -> Option<Value> {
    if let Some(default) = &field.default {
        return plain(default);
    }
    let unpublished = field.ptr
        || matches!(
            field.value_type,
            FieldType::Quantity | FieldType::IntOrString | FieldType::Duration
        );
    field.zero.as_ref().filter(|_| !unpublished).and_then(plain)
}

fn plain(tree: &Tree) -> Option<Value> {
    serde_json::to_value(tree).ok().filter(|value| !value.is_null())
}

/// Adds the extensions that describe how lists and maps are merged.
fn add_merge_extensions(property: &mut Map<String, Value>, field: &Field) {
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
    add_map_type(property, field.map_type);
    if let Some(strategy) = field.patch_strategy() {
        property.insert("x-kubernetes-patch-strategy".to_owned(), strategy.into());
    }
    if let Some(key) = field.merge_key() {
        property.insert("x-kubernetes-patch-merge-key".to_owned(), key.into());
    }
}

fn add_map_type(schema: &mut Map<String, Value>, map_type: Option<MapType>) {
    let name = match map_type {
        None => return,
        Some(MapType::Atomic) => "atomic",
        Some(MapType::Granular) => "granular",
    };
    schema.insert("x-kubernetes-map-type".to_owned(), name.into());
}

/// Sets the description of a schema that has none.
pub fn add_description(schema: &mut Map<String, Value>, description: &str) {
    if !schema.contains_key("description") {
        schema.shift_insert(0, "description".to_owned(), description.into());
    }
}

fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests;
