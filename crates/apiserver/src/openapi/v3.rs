//! OpenAPI v3: one OpenAPI document per group and version, and small ones for the paths above them.

use serde_json::{Map, Value, json};
use setpoint_api::HttpVerb;
use setpoint_schema::openapi::Schemas;
use setpoint_strategy::Kinds;

use super::operation_id;
use super::operations::{self, Paths};
use crate::discovery::groups;
use crate::version::Version;

/// The path of an OpenAPI document below `/openapi/v3/`, and its value.
pub(super) type V3Document = (String, Value);

/// All OpenAPI documents.
pub(super) fn all(kinds: &Kinds) -> Vec<V3Document> {
    let mut documents = vec![
        small("api", ("", "v1", "APIVersions"), "getCoreAPIVersions", "core"),
        small("apis", ("", "v1", "APIGroupList"), "getAPIVersions", "apis"),
        version(),
    ];
    for group in groups::local_groups(kinds) {
        let root = match group.name {
            "" => "api".to_owned(),
            name => format!("apis/{name}"),
        };
        if !group.name.is_empty() {
            let (name, tag) = operation_id::group_names(group.name);
            let id = format!("get{name}APIGroup");
            documents.push(small(&root, ("", "v1", "APIGroup"), &id, &tag));
        }
        for version in &group.versions {
            documents.push((
                format!("{root}/{version}"),
                group_version(kinds, group.name, version),
            ));
        }
    }
    documents
}

/// The OpenAPI document of one group and version.
pub(super) fn group_version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut paths = Paths::new(group, version);
    paths.write_root();
    for kind in groups::kinds_of(kinds, group, version) {
        paths.write(&**kind);
    }
    document(paths.map, paths.schemas)
}

/// The OpenAPI document of one path with a GET that returns one kind.
fn small(root: &str, (group, version, kind): (&str, &str, &str), id: &str, tag: &str) -> V3Document {
    let mut schemas = Schemas::new("", "v1");
    let schema = schemas.reference_to(group, version, kind);
    let schema = schema.unwrap_or_else(|| json!({"type": "object"}));
    let operation = operations::get_operation(id, tag, &schema, &operations::plain_types(true));
    let paths = [(format!("/{root}/"), json!({HttpVerb::Get.as_str(): operation}))];
    (root.to_owned(), document(paths.into_iter().collect(), schemas))
}

fn version() -> V3Document {
    let server = serde_json::to_value(Version::server()).expect("a version is plain strings");
    let client = serde_json::to_value(Version::client()).expect("a version is plain strings");
    let mut schemas = Schemas::new("", "v1");
    let schema = schemas.reference_as("io.k8s.apimachinery.pkg.version.Info", || {
        let names = server.as_object().into_iter().flat_map(Map::keys);
        let properties: Map<String, Value> = names
            .map(|name| (name.clone(), json!({"type": "string"})))
            .collect();
        let required: Vec<&String> = client.as_object().into_iter().flat_map(Map::keys).collect();
        json!({"type": "object", "required": required, "properties": properties})
    });
    let operation = operations::get_operation("getCodeVersion", "version", &schema, &["application/json"]);
    let paths = [("/version/".to_owned(), json!({HttpVerb::Get.as_str(): operation}))];
    (
        "version".to_owned(),
        document(paths.into_iter().collect(), schemas),
    )
}

fn document(paths: Map<String, Value>, schemas: Schemas) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {
            "schemas": schemas.into_map(),
            "securitySchemes": {"BearerToken": bearer()},
        },
    })
}

pub(super) fn info() -> Value {
    json!({"title": "Kubernetes", "version": Version::server().git_version})
}

/// The security scheme of bearer tokens.
pub(super) fn bearer() -> Value {
    json!({"type": "apiKey", "name": "authorization", "in": "header"})
}
