//! The custom resource: spec and status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint_manifests::schema;

/// The desired state.
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
    /// The text of the greeting.
    #[schemars(length(min = 1, max = 100))]
    pub greeting: String,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GreeterStatus {
    /// The generation of the spec that the controller has reconciled.
    #[serde(default)]
    pub observed_generation: i64,
    #[schemars(schema_with = "schema::conditions")]
    #[serde(default)]
    pub conditions: Vec<Condition>,
}
