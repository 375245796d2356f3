//! The OpenAPI schema of a custom kind: the CRD's schema, with the fields that every object has.
//!
//! Version 2 has no schemas for values of several types, and kubectl rejects what such a schema does not name. Fields
//! that may be null or anything are therefore published without a type there. The rules are upstream's `buildKubeNative`
//! and `ToStructuralOpenAPIV2`, in apiextensions-apiserver `pkg/controller/openapi`.

use serde_json::{Map, Value, json};
use setpoint_schema::fields;
use setpoint_schema::openapi::{OBJECT_META, OpenApiVersion, descriptions};

use crate::kind::KindInfo;

type Schema = Map<String, Value>;

/// The OpenAPI definition's name and schema.
pub(super) fn schema(info: &KindInfo, schema: &[u8], version: OpenApiVersion) -> (String, Value) {
    let schema: Value = serde_json::from_slice(schema).unwrap_or_default();
    let mut schema = match schema {
        Value::Object(schema) if version == OpenApiVersion::V2 && is_open(&schema) => untyped_object(),
        Value::Object(schema) => published(schema, version),
        _ => untyped_object(),
    };
    let gvk = &info.gvk;
    let mark = json!({"group": *gvk.group, "kind": *gvk.kind, "version": *gvk.version});
    schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([mark]));
    schema.extend(selectable_fields(info));
    (name(info), schema.into())
}

/// The extension that lists the selectable fields of a kind, if it has any.
pub fn selectable_fields(info: &KindInfo) -> Option<(String, Value)> {
    let fields = info.fields.iter().map(|field| json!({"fieldPath": field.label}));
    let fields: Vec<Value> = fields.collect();
    (!fields.is_empty()).then(|| ("x-kubernetes-selectable-fields".to_owned(), fields.into()))
}

/// The schema of any object: kubectl must find no unknown fields in it.
fn untyped_object() -> Schema {
    [(fields::TYPE.to_owned(), "object".into())].into_iter().collect()
}

fn published(mut schema: Schema, version: OpenApiVersion) -> Schema {
    declare_int_or_strings(&mut schema);
    if version == OpenApiVersion::V2 {
        convert_to_v2(&mut schema);
    }
    add_embedded_fields(&mut schema, version);
    let properties = properties_mut(&mut schema);
    add_object_fields(properties, version);
    schema
}

/// Adds `apiVersion`, `kind` and metadata.
fn add_object_fields(properties: &mut Schema, version: OpenApiVersion) {
    let text = |description: &str| json!({"description": description, "type": "string"});
    let mut metadata = version.reference_property(OBJECT_META);
    metadata.insert(fields::DESCRIPTION.to_owned(), descriptions::METADATA.into());
    properties.insert(fields::API_VERSION.to_owned(), text(descriptions::API_VERSION));
    properties.insert(fields::KIND.to_owned(), text(descriptions::KIND));
    properties.insert(fields::METADATA.to_owned(), metadata.into());
}

/// Adds the types of every `x-kubernetes-int-or-string`, unless its author did.
fn declare_int_or_strings(schema: &mut Schema) {
    each_child(schema, declare_int_or_strings);
    if !is_true(schema, fields::X_KUBERNETES_INT_OR_STRING) {
        return;
    }
    let types = json!([{"type": "integer"}, {"type": "string"}]);
    let all_of = schema.get(fields::ALL_OF).and_then(Value::as_array);
    let in_first = all_of.and_then(|all_of| all_of.first()?.get(fields::ANY_OF));
    match schema.get(fields::ANY_OF) {
        declared if declared == Some(&types) || in_first == Some(&types) => {}
        None => {
            schema.insert(fields::ANY_OF.to_owned(), types);
        }
        Some(_) => {
            let mut all_of = all_of.cloned().unwrap_or_default();
            all_of.insert(0, json!({"anyOf": types}));
            schema.insert(fields::ALL_OF.to_owned(), all_of.into());
        }
    }
}

/// Leaves out what version 2 cannot express, from the root down.
fn convert_to_v2(schema: &mut Schema) {
    const JUNCTORS: [&str; 4] = [fields::ALL_OF, fields::ONE_OF, fields::ANY_OF, fields::NOT];
    for name in JUNCTORS.into_iter().chain([fields::DEFAULT]) {
        schema.shift_remove(name);
    }
    let is_nullable = schema.shift_remove(fields::NULLABLE) == Some(Value::Bool(true));
    let is_open = is_open(schema);
    if is_nullable || is_open {
        schema.shift_remove(fields::ITEMS);
        schema.shift_remove(fields::PROPERTIES);
    }
    let is_object = schema.get(fields::TYPE).is_some_and(|kind| kind == "object");
    let is_array = schema.get(fields::TYPE).is_some_and(|kind| kind == "array");
    if is_nullable || is_open && is_object || is_array && !schema.contains_key(fields::ITEMS) {
        schema.shift_remove(fields::TYPE);
    }
    drop_nullable_from_required(schema);
    each_child(schema, convert_to_v2);
}

/// A field that may be null is not required in version 2, which would reject the null.
fn drop_nullable_from_required(schema: &mut Schema) {
    let is_nullable = |schema: Option<&Value>| schema.is_some_and(|schema| schema[fields::NULLABLE] == true);
    let Some(Value::Array(mut required)) = schema.shift_remove(fields::REQUIRED) else {
        return;
    };
    let properties = schema.get(fields::PROPERTIES);
    required.retain(|name| {
        let property = name.as_str().and_then(|name| properties?.get(name));
        !is_nullable(property)
    });
    if !required.is_empty() && !is_nullable(schema.get(fields::ADDITIONAL_PROPERTIES)) {
        schema.insert(fields::REQUIRED.to_owned(), required.into());
    }
}

/// Adds the fields of objects to every `x-kubernetes-embedded-resource`.
fn add_embedded_fields(schema: &mut Schema, version: OpenApiVersion) {
    each_child(schema, |child| add_embedded_fields(child, version));
    let is_open = version == OpenApiVersion::V2 && is_open(schema);
    if is_open || !is_true(schema, fields::X_KUBERNETES_EMBEDDED_RESOURCE) {
        return;
    }
    add_object_fields(properties_mut(schema), version);
    let required = schema.entry(fields::REQUIRED).or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        for name in [fields::KIND, fields::API_VERSION] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

fn properties_mut(schema: &mut Schema) -> &mut Schema {
    let properties = schema.entry(fields::PROPERTIES).or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    properties.as_object_mut().expect("it was made an object above")
}

/// Changes the schemas of the properties, the items and the additional properties.
fn each_child(schema: &mut Schema, mut change: impl FnMut(&mut Schema)) {
    let properties = schema.get_mut(fields::PROPERTIES).and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        property.as_object_mut().into_iter().for_each(&mut change);
    }
    for name in [fields::ITEMS, fields::ADDITIONAL_PROPERTIES] {
        let child = schema.get_mut(name).and_then(Value::as_object_mut);
        child.into_iter().for_each(&mut change);
    }
}

/// Whether values may have fields that the schema does not name.
fn is_open(schema: &Schema) -> bool {
    is_true(schema, fields::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS)
}

fn is_true(schema: &Schema, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// The reversed group, version and kind: `com.example.v1.Widget`.
fn name(info: &KindInfo) -> String {
    let mut words: Vec<&str> = info.gvk.group.split('.').rev().collect();
    words.extend([info.gvk.version.as_str(), info.gvk.kind.as_str()]);
    words.join(".")
}

#[cfg(test)]
mod tests;
