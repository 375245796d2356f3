//! Version 3: one document for each group and version, and small ones for the paths above them.

use serde_json::{Map, Value, json};
use setpoint_kinds::Kinds;
use setpoint_schema::openapi::Schemas;

use super::operations::{self, Paths};
use super::words;
use crate::discovery::groups;
use crate::version::Version;

/// Where a document is published below `/openapi/v3/`, and the document.
pub(super) type Published = (String, Value);

/// All documents.
pub(super) fn all(kinds: &Kinds) -> Vec<Published> {
    let mut documents = vec![
        small("api", ("", "v1", "APIVersions"), "getCoreAPIVersions", "core"),
        small("apis", ("", "v1", "APIGroupList"), "getAPIVersions", "apis"),
        version(),
    ];
    for group in groups::all(kinds) {
        let root = match group.name {
            "" => "api".to_owned(),
            name => format!("apis/{name}"),
        };
        if !group.name.is_empty() {
            let (word, tag) = words::words(group.name);
            let id = format!("get{word}APIGroup");
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

/// The document of one group and version.
pub(super) fn group_version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut paths = Paths::new(group, version);
    paths.write_root();
    for kind in groups::kinds_of(kinds, group, version) {
        paths.write(&**kind);
    }
    document(paths.map, paths.schemas)
}

/// A document of one path that is read and answers with one kind.
fn small(root: &str, (group, version, kind): (&str, &str, &str), id: &str, tag: &str) -> Published {
    let mut schemas = Schemas::new("", "v1");
    let gives = schemas.reference_to(group, version, kind);
    let gives = gives.unwrap_or_else(|| json!({"type": "object"}));
    let reading = operations::reading(id, tag, &gives, &operations::plain_types(true));
    let paths = [(format!("/{root}/"), json!({"get": reading}))];
    (root.to_owned(), document(paths.into_iter().collect(), schemas))
}

fn version() -> Published {
    let shown = serde_json::to_value(Version::server()).expect("a version is plain strings");
    let plain = serde_json::to_value(Version::client()).expect("a version is plain strings");
    let mut schemas = Schemas::new("", "v1");
    let gives = schemas.reference_as("io.k8s.apimachinery.pkg.version.Info", || {
        let names = shown.as_object().into_iter().flat_map(Map::keys);
        let properties: Map<String, Value> = names
            .map(|name| (name.clone(), json!({"type": "string"})))
            .collect();
        let required: Vec<&String> = plain.as_object().into_iter().flat_map(Map::keys).collect();
        json!({"type": "object", "required": required, "properties": properties})
    });
    let reading = operations::reading("getCodeVersion", "version", &gives, &["application/json"]);
    let paths = [("/version/".to_owned(), json!({"get": reading}))];
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

/// How callers say who they are, as documents put it.
pub(super) fn bearer() -> Value {
    json!({"type": "apiKey", "name": "authorization", "in": "header"})
}
