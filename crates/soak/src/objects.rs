//! The objects of the load: ConfigMaps with a label, one namespace per writer.

use serde_json::{Value, json};
use setpoint_conformance::wire::Request;

pub(crate) const JSON: &str = "application/json";
/// All objects of the load, in every namespace.
pub(crate) const COLLECTION: &str = "/api/v1/configmaps?labelSelector=soak";
/// The label of objects that the controller copies, and the prefix of the copies' names.
pub(crate) const COPIED: &str = "copied";
pub(crate) const COPY_PREFIX: &str = "copy-of-";
/// The field with the value.
pub(crate) const VALUE: &str = "value";

/// The namespace of a writer.
pub(crate) fn namespace(writer: usize) -> String {
    format!("soak-{writer}")
}

pub(crate) fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub(crate) fn path(namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(namespace))
}

/// A ConfigMap of a writer.
pub(crate) fn config_map(name: &str, value: &str, is_copied: bool) -> Value {
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"soak": "written"}},
        "data": {VALUE: value},
    });
    if is_copied {
        map["metadata"]["labels"][COPIED] = json!("true");
    }
    map
}

pub(crate) fn post(path: &str, body: &Value) -> Request {
    Request::new("POST", path).body(JSON, body.to_string())
}

/// The resource version of an object or a list, as the number that this server uses.
pub(crate) fn revision(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

/// `namespace/name`.
pub(crate) fn key(object: &Value) -> String {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", field("namespace"), field("name"))
}

/// The value of a ConfigMap of the load.
pub(crate) fn value(object: &Value) -> &str {
    object["data"][VALUE].as_str().unwrap_or_default()
}
