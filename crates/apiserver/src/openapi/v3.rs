//! OpenAPI v3: one OpenAPI document per group and version, and small ones for the paths above them.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use setpoint_api::HttpVerb;
use setpoint_codec::media;
use setpoint_schema::openapi::Schemas;
use setpoint_strategy::{Kind, Kinds};

use super::descriptions::Descriptions;
use super::operation::{get_operation, plain_types};
use super::operation_id;
use super::operations::Paths;
use crate::discovery::groups;
use crate::version::Version;

/// An OpenAPI document below `/openapi/v3/`, not built yet. Only one is built at a time, since each takes some
/// megabytes.
#[derive(Debug, Clone)]
pub(super) struct V3Source {
    /// Such as `api/v1`.
    pub path: String,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    /// One path with a GET that returns an object of a kind of the core group.
    Get {
        kind: &'static str,
        id: String,
        tag: String,
    },
    /// One path with a GET that returns an object that has no kind.
    GetText {
        id: &'static str,
        tag: &'static str,
        media_type: &'static str,
    },
    Version,
    GroupVersion {
        group: String,
        version: String,
        kinds: Vec<Arc<dyn Kind>>,
    },
}

/// All OpenAPI documents.
pub(super) fn sources(kinds: &Kinds) -> Vec<V3Source> {
    let mut sources = vec![
        V3Source::get("api", "APIVersions", "getCoreAPIVersions", "core"),
        V3Source::get("apis", "APIGroupList", "getAPIVersions", "apis"),
        V3Source::new("version", Content::Version),
        V3Source::text(
            ".well-known/openid-configuration",
            "getServiceAccountIssuerOpenIDConfiguration",
            ("WellKnown", media::JSON),
        ),
        V3Source::text(
            "openid/v1/jwks",
            "getServiceAccountIssuerOpenIDKeyset",
            ("openid", "application/jwk-set+json"),
        ),
    ];
    for group in groups::local_groups(kinds) {
        let root = match group.name {
            "" => "api".to_owned(),
            name => format!("apis/{name}"),
        };
        if !group.name.is_empty() && !groups::is_custom_group(kinds, group.name) {
            let (name, tag) = operation_id::group_names(group.name);
            sources.push(V3Source::get(
                &root,
                "APIGroup",
                &format!("get{name}APIGroup"),
                &tag,
            ));
        }
        for version in &group.versions {
            let kinds = groups::kinds_of(kinds, group.name, version);
            let content = Content::GroupVersion {
                group: group.name.to_owned(),
                version: (*version).to_owned(),
                kinds: kinds.into_iter().cloned().collect(),
            };
            sources.push(V3Source::new(&format!("{root}/{version}"), content));
        }
    }
    sources
}

impl V3Source {
    fn new(path: &str, content: Content) -> Self {
        let path = path.to_owned();
        Self { path, content }
    }

    fn get(path: &str, kind: &'static str, id: &str, tag: &str) -> Self {
        let (id, tag) = (id.to_owned(), tag.to_owned());
        Self::new(path, Content::Get { kind, id, tag })
    }

    fn text(path: &str, id: &'static str, (tag, media_type): (&'static str, &'static str)) -> Self {
        Self::new(path, Content::GetText { id, tag, media_type })
    }

    /// Whether both are the OpenAPI document of the same kinds.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let is_same_content = match (&self.content, &other.content) {
            (Content::GroupVersion { kinds, .. }, Content::GroupVersion { kinds: others, .. }) => {
                let mut pairs = kinds.iter().zip(others);
                kinds.len() == others.len() && pairs.all(|(kind, other)| Arc::ptr_eq(kind, other))
            }
            (Content::GroupVersion { .. }, _) | (_, Content::GroupVersion { .. }) => false,
            _ => true,
        };
        self.path == other.path && is_same_content
    }

    pub(super) fn build(&self, descriptions: &Descriptions) -> Value {
        match &self.content {
            Content::Get { kind, id, tag } => {
                let mut schemas = Schemas::new("", "v1");
                let schema = schemas.reference_to("", "v1", kind);
                let schema = schema.unwrap_or_else(|| json!({"type": "object"}));
                let operation = get_operation(id, tag, &schema, &plain_types(true));
                document(self.one_path(operation), schemas, descriptions)
            }
            Content::GetText { id, tag, media_type } => {
                let operation = get_operation(id, tag, &json!({"type": "string"}), &[*media_type]);
                document(self.one_path(operation), Schemas::new("", "v1"), descriptions)
            }
            Content::Version => {
                let mut schemas = Schemas::new("", "v1");
                let schema = schemas.reference_as("io.k8s.apimachinery.pkg.version.Info", version_schema);
                let operation = get_operation("getCodeVersion", "version", &schema, &[media::JSON]);
                document(self.one_path(operation), schemas, descriptions)
            }
            Content::GroupVersion {
                group,
                version,
                kinds,
            } => group_version((group, version), kinds, descriptions),
        }
    }

    fn one_path(&self, operation: Value) -> Map<String, Value> {
        let path = format!("/{}/", self.path);
        let item = json!({HttpVerb::Get.as_str(): operation});
        [(path, item)].into_iter().collect()
    }
}

/// The OpenAPI document of one group and version. Custom ones have no path for the list of resources, a title of their
/// own, and no security schemes.
fn group_version(
    (group, version): (&str, &str),
    kinds: &[Arc<dyn Kind>],
    descriptions: &Descriptions,
) -> Value {
    let is_custom = kinds.iter().all(|kind| kind.info().is_custom);
    let mut paths = Paths::new(group, version);
    if !is_custom {
        paths.write_root();
    }
    for kind in kinds {
        paths.write(&**kind);
    }
    let mut document = document(paths.map, paths.schemas, descriptions);
    if is_custom {
        document["info"] = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
        if let Value::Object(components) = &mut document["components"] {
            components.shift_remove("securitySchemes");
        }
    }
    document
}

fn version_schema() -> Value {
    let server = serde_json::to_value(Version::server()).expect("a version is plain strings");
    let client = serde_json::to_value(Version::client()).expect("a version is plain strings");
    let names = server.as_object().into_iter().flat_map(Map::keys);
    let properties: Map<String, Value> = names
        .map(|name| (name.clone(), json!({"type": "string"})))
        .collect();
    let required: Vec<&String> = client.as_object().into_iter().flat_map(Map::keys).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn document(paths: Map<String, Value>, schemas: Schemas, descriptions: &Descriptions) -> Value {
    let mut schemas = schemas.into_map();
    descriptions.add_to(&mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {
            "schemas": schemas,
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
