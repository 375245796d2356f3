//! Pods and nodes for the tests of this crate.

use std::sync::Arc;

use serde_json::json;
use setpoint_api::{Header, Key, Stored};

use crate::pod_info::{Life, PodInfo, Weight};
use crate::resources::Resources;

/// A live pod of the default scheduler that asks for nothing. The empty node is none.
pub(crate) fn pod(name: &str, node: &str) -> PodInfo {
    PodInfo {
        key: Key::new("default", name),
        uid: name.into(),
        node: node.into(),
        scheduler: "default-scheduler".into(),
        priority: 0,
        requests: Resources::default(),
        weight: Weight::default(),
        tolerations: Vec::new(),
        node_selector: Default::default(),
        node_affinity: None,
        life: Life::Live,
    }
}

/// A pod that asks for so many thousandths of a processor.
pub(crate) fn pod_asking(name: &str, node: &str, milli_cpu: i64) -> PodInfo {
    let mut pod = pod(name, node);
    pod.requests.milli_cpu = milli_cpu;
    pod.weight.milli_cpu = milli_cpu;
    pod
}

/// A node with so many thousandths of a processor, room for ten pods and plenty of memory.
pub(crate) fn node(name: &str, milli_cpu: i64) -> Arc<Stored> {
    let document = json!({
        "status": {"allocatable": {"cpu": format!("{milli_cpu}m"), "memory": "64Gi", "pods": "10"}},
    });
    let header = Header::new(Key::new("", name));
    Arc::new(Stored::new(header, document.to_string().into(), 1))
}
