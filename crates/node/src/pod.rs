//! [`Pod`]: the fields of a Pod that the agent and its runtime read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodStatus;
use serde::Deserialize;

/// The fields of a Pod that the agent and its runtime read: its whole status, and a little of its spec. To decode the
/// whole spec would take much longer to compile.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Metadata,
    pub spec: Spec,
    pub status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub uid: String,
    pub generation: Option<i64>,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub containers: Vec<Container>,
    pub init_containers: Option<Vec<Container>>,
    pub readiness_gates: Vec<ReadinessGate>,
    pub restart_policy: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub image: String,
    pub restart_policy: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessGate {
    pub condition_type: String,
}
