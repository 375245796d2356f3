//! The kind: what a user may ask for, and what the controller answers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_manifests::schema;

/// What a user asks for.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "Greeter",
    plural = "greeters"
)]
#[kube(namespaced, status = "GreeterStatus", derive = "PartialEq")]
#[kube(printcolumn(name = "Greeting", type_ = "string", json_path = ".spec.greeting"))]
#[serde(rename_all = "camelCase")]
pub struct GreeterSpec {
    /// What to say.
    #[schemars(length(min = 1, max = 100))]
    pub greeting: String,
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GreeterStatus {
    /// The spec that this answers.
    #[serde(default)]
    pub observed_generation: i64,
    #[schemars(schema_with = "schema::conditions")]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
