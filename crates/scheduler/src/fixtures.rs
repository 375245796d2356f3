//! Pods and nodes for the tests of this crate.

use std::sync::Arc;

use serde_json::json;
use setpoint_api::{Header, Key, Stored};

use crate::pod_info::{NonZeroRequests, PodInfo, SchedulingState};
use crate::resources::Resources;

/// An active pod of the default scheduler without requests. An empty `node` means unbound.
pub(crate) fn pod(name: &str, node: &str) -> PodInfo {
    PodInfo {
        key: Key::new("default", name),
        uid: name.into(),
        node: node.into(),
        scheduler: "default-scheduler".into(),
        priority: 0,
        requests: Resources::default(),
        non_zero_requests: NonZeroRequests::default(),
        tolerations: Vec::new(),
        node_selector: Default::default(),
        node_affinity: None,
        state: SchedulingState::Active,
    }
}

/// A pod that requests this many milli-CPUs.
pub(crate) fn pod_requesting(name: &str, node: &str, milli_cpu: i64) -> PodInfo {
    let mut pod = pod(name, node);
    pod.requests.milli_cpu = milli_cpu;
    pod.non_zero_requests.milli_cpu = milli_cpu;
    pod
}

/// A node with this many milli-CPUs, capacity for ten pods and plenty of memory.
pub(crate) fn node(name: &str, milli_cpu: i64) -> Arc<Stored> {
    let object = json!({
        "status": {"allocatable": {"cpu": format!("{milli_cpu}m"), "memory": "64Gi", "pods": "10"}},
    });
    let header = Header::new(Key::new("", name));
    Arc::new(Stored::new(header, object.to_string().into(), 1))
}
