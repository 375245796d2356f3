//! The custom resource: spec and status.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The desired state.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "samplecontroller.k8s.io", version = "v1alpha1", kind = "Foo")]
#[kube(namespaced, status = "FooStatus", derive = "PartialEq")]
#[kube(doc = "A Deployment of a certain size.")]
#[kube(annotation("api-approved.kubernetes.io", "unapproved, a sample only"))]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// Name of the Deployment to manage. If empty, none is created.
    #[serde(default)]
    pub deployment_name: String,
    /// Desired replicas of the Deployment.
    #[schemars(range(min = 1, max = 10))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// Available replicas of the Deployment.
    #[serde(default)]
    pub available_replicas: i32,
}
