//! Operator: the name and the description of a package, of any version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// An installed operator.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    #[serde(default = "super::api_version")]
    pub api_version: String,
    #[serde(default = "Operator::kind_name")]
    pub kind: String,
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: OperatorSpec,
    #[serde(default)]
    pub status: serde_json::Map<String, serde_json::Value>,
}

super::kudo_object!(Operator, "Operator", "operators");

/// The description of an operator.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kudo_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubernetes_version: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace_manifest: String,
}

/// A maintainer of an operator.
#[allow(missing_docs, reason = "the fields are those of the API")]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
}
