//! ResourceQuotas: what an object counts, and which objects a quota matches.
//!
//! Admission charges a write with it, and the controller recounts with it what exists; the two must not differ. Quotas
//! count every object, and of pods, Services and PersistentVolumeClaims also what they use: this is the one module that
//! names those kinds.
//!
//! Start reading at [`usage`], then [`Scopes`].

mod scopes;
mod usage;

use serde::Deserialize;
use setpoint_api::GroupResource;

use crate::resource_list::{self, ResourceList};

pub use scopes::Scopes;
pub use usage::{check_specified, counted_resource, counts, usage};

/// How quotas count an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// By its requests and limits, unless it has finished.
    Pod,
    /// By its type and node ports.
    Service,
    /// By its storage and storage class.
    Claim,
    /// Only by the number of objects.
    Other,
}

/// An object that quotas count: a pod, a Service or a PersistentVolumeClaim. Of any other kind nothing is read, and its
/// value is the default.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct QuotaObject {
    spec: Spec,
    status: Status,
}

/// The fields of all three kinds together.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    // Of a pod.
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "resource_list::deserialize")]
    overhead: ResourceList,
    active_deadline_seconds: Option<i64>,
    priority_class_name: String,
    affinity: scopes::Affinity,
    // Of a pod as a whole, or of a claim.
    resources: Option<ResourceRequirements>,
    // Of a Service.
    #[serde(rename = "type")]
    service_type: String,
    ports: Vec<Port>,
    allocate_load_balancer_node_ports: Option<bool>,
    // Of a claim.
    storage_class_name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_policy: String,
    resources: ResourceRequirements,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ResourceRequirements {
    #[serde(deserialize_with = "resource_list::deserialize")]
    requests: ResourceList,
    #[serde(deserialize_with = "resource_list::deserialize")]
    limits: ResourceList,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    node_port: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    qos_class: String,
}

impl QuotaKind {
    /// How quotas count the objects of a resource.
    pub fn of(resource: &GroupResource) -> Self {
        match (resource.group.as_str(), resource.resource.as_str()) {
            ("", "pods") => Self::Pod,
            ("", "services") => Self::Service,
            ("", "persistentvolumeclaims") => Self::Claim,
            _ => Self::Other,
        }
    }
}
