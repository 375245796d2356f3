//! Amounts of a node by which Score plugins compare nodes: what is allocatable, and what is requested with and without the
//! pod.

use compact_str::CompactString;
use serde::Deserialize;

use crate::pod_info::PodInfo;
use crate::state::NodeRef;

/// A resource and its weight in the score (upstream: `ResourceSpec`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ResourceSpec {
    pub(super) name: CompactString,
    #[serde(default = "one")]
    pub(super) weight: i64,
}

fn one() -> i64 {
    1
}

/// The amounts of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allocation {
    pub(super) allocatable: i64,
    /// Without the pod.
    pub(super) allocated: i64,
    /// With the pod.
    pub(super) requested: i64,
}

/// Whether requests without defaults count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// With a default per container that has no request.
    NonZero,
    /// As they are.
    Actual,
}

pub(super) fn default_resources() -> Vec<ResourceSpec> {
    let spec = |name: &str| ResourceSpec {
        name: name.into(),
        weight: 1,
    };
    vec![spec("cpu"), spec("memory")]
}

/// The request of the pod for a resource.
pub(super) fn pod_request(pod: &PodInfo, resource: &str, kind: RequestKind) -> i64 {
    match (resource, kind) {
        ("cpu", RequestKind::NonZero) => pod.spec.non_zero_requests.milli_cpu,
        ("memory", RequestKind::NonZero) => pod.spec.non_zero_requests.memory,
        _ => pod.spec.requests.amount(resource),
    }
}

/// The amounts of a resource on the node; `None` if the node has none of it, or if the pod does not request a resource
/// that is counted only on request.
pub(super) fn allocation(
    pod: &PodInfo,
    node: NodeRef<'_>,
    resource: &str,
    kind: RequestKind,
) -> Option<Allocation> {
    let request = pod_request(pod, resource, kind);
    if request == 0 && !matches!(resource, "cpu" | "memory" | "ephemeral-storage") {
        return None;
    }
    let allocatable = node.allocatable(resource);
    if allocatable == 0 {
        return None;
    }
    let allocated = match (resource, kind) {
        ("cpu", RequestKind::NonZero) => node.non_zero_requested().milli_cpu,
        ("memory", RequestKind::NonZero) => node.non_zero_requested().memory,
        _ => node.requested(resource),
    };
    Some(Allocation {
        allocatable,
        allocated,
        requested: allocated + request,
    })
}
