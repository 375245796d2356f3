//! The kind: what a user may ask for, and what the controller answers.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user asks for.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "samplecontroller.k8s.io", version = "v1alpha1", kind = "Foo")]
#[kube(namespaced, status = "FooStatus", derive = "PartialEq")]
#[kube(doc = "A Deployment of a certain size.")]
#[kube(annotation("api-approved.kubernetes.io", "unapproved, a sample only"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// The Deployment to keep. Without a name there is none.
    #[serde(default)]
    pub deployment_name: String,
    /// How many pods it has.
    #[schemars(range(min = 1, max = 10))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// What there is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// How many pods of the Deployment can be used.
    #[serde(default)]
    pub available_replicas: i32,
}
