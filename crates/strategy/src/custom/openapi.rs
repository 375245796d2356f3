//! The OpenAPI schema of a custom kind: the CRD's schema with `apiVersion` and `kind` added.

use serde_json::{Map, Value, json};

use crate::kind::KindInfo;

/// The OpenAPI definition's name and schema, without the metadata.
pub(super) fn schema(info: &KindInfo, schema: &[u8]) -> (String, Value) {
    let schema: Value = serde_json::from_slice(schema).unwrap_or_default();
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for name in ["apiVersion", "kind"] {
            properties.insert(name.to_owned(), json!({"type": "string"}));
        }
    }
    schema.insert("type".to_owned(), "object".into());
    let gvk = &info.gvk;
    let mark = json!({"group": *gvk.group, "kind": *gvk.kind, "version": *gvk.version});
    schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([mark]));
    (name(info), schema.into())
}

/// The reversed group, version and kind: `com.example.v1.Widget`.
fn name(info: &KindInfo) -> String {
    let mut words: Vec<&str> = info.gvk.group.split('.').rev().collect();
    words.extend([info.gvk.version.as_str(), info.gvk.kind.as_str()]);
    words.join(".")
}
