//! What tools are told of a custom kind: its schema, with what every object has.

use serde_json::{Map, Value, json};

use crate::kind::About;

/// The name and the schema under which a kind is published, its metadata aside.
pub(super) fn schema(about: &About, schema: &[u8]) -> (String, Value) {
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
    let gvk = &about.gvk;
    let mark = json!({"group": *gvk.group, "kind": *gvk.kind, "version": *gvk.version});
    schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([mark]));
    (name(about), schema.into())
}

/// The words of the group from the last to the first: `com.example.v1.Widget`.
fn name(about: &About) -> String {
    let mut words: Vec<&str> = about.gvk.group.split('.').rev().collect();
    words.extend([about.gvk.version.as_str(), about.gvk.kind.as_str()]);
    words.join(".")
}
