//! Pods and nodes for the tests of this crate.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_api::{Header, Key, ResourceVersion, Stored};

use crate::pod_info::{NonZeroRequests, PodInfo, PodSpec, SchedulingState, SpecInterner};
use crate::state::ClusterState;

/// An active pod of the default scheduler without requests. An empty `node` means unbound.
pub(crate) fn pod(name: &str, node: &str) -> PodInfo {
    PodInfo {
        key: Key::new("default", name),
        uid: name.into(),
        resource_version: ResourceVersion(1),
        node: node.into(),
        nominated_node: Default::default(),
        labels: Box::default(),
        controller: None,
        scheduling_gates: Box::default(),
        resource_claims: Box::default(),
        created: None,
        started: None,
        is_resizing: false,
        is_preempted: false,
        spec: Arc::new(PodSpec {
            scheduler: "default-scheduler".into(),
            ..PodSpec::default()
        }),
        state: SchedulingState::Active,
    }
}

/// The pod with a changed spec.
pub(crate) fn with_spec(mut pod: PodInfo, change: impl FnOnce(&mut PodSpec)) -> PodInfo {
    change(Arc::make_mut(&mut pod.spec));
    pod
}

/// A pod that requests this many milli-CPUs.
pub(crate) fn pod_requesting(name: &str, node: &str, milli_cpu: i64) -> PodInfo {
    with_spec(pod(name, node), |spec| {
        spec.requests.milli_cpu = milli_cpu;
        spec.non_zero_requests = NonZeroRequests { milli_cpu, memory: 0 };
    })
}

/// A pod as it is read from this object.
pub(crate) fn pod_from(object: Value) -> PodInfo {
    let name = object["metadata"]["name"].as_str().unwrap_or("p").to_owned();
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let mut header = Header::new(Key::new(namespace, &name));
    header.uid = name.as_str().into();
    let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
    header.labels = labels
        .map(|(name, value)| (name.as_str().into(), value.as_str().unwrap_or_default().into()))
        .collect();
    header.labels.sort();
    let stored = Stored::new(header, object.to_string().into(), 1);
    PodInfo::read(&stored, &mut SpecInterner::default()).expect("a pod")
}

/// A node with this many milli-CPUs, capacity for ten pods and plenty of memory.
pub(crate) fn node(name: &str, milli_cpu: i64) -> Arc<Stored> {
    node_from(
        name,
        json!({
            "status": {"allocatable": {"cpu": format!("{milli_cpu}m"), "memory": "64Gi", "pods": "10"}},
        }),
    )
}

/// A node of this object.
pub(crate) fn node_from(name: &str, object: Value) -> Arc<Stored> {
    let header = Header::new(Key::new("", name));
    Arc::new(Stored::new(header, object.to_string().into(), 1))
}

/// Nodes as `name=cpu`; with a pod on them as `name=cpu-taken`.
pub(crate) fn cluster(nodes: &str) -> ClusterState {
    let mut cluster = ClusterState::default();
    for words in nodes.split_whitespace() {
        let (name, cpu) = words.split_once('=').unwrap();
        let (cpu, taken) = cpu.split_once('-').unwrap_or((cpu, "0"));
        cluster.set_node(&node(name, cpu.parse().unwrap()));
        let pod = pod_requesting(&format!("on-{name}"), name, taken.parse().unwrap());
        cluster.set_pod(Arc::new(pod));
    }
    cluster
}

/// The only node of a cluster, with this object.
pub(crate) fn cluster_of(name: &str, object: Value) -> ClusterState {
    let mut cluster = ClusterState::default();
    cluster.set_node(&node_from(name, object));
    cluster
}

/// Whether a Filter plugin lets the pod through on the only node of a cluster, else its reasons.
pub(crate) fn filter_reasons(
    plugin: &dyn crate::framework::Filter,
    pod: &PodInfo,
    cluster: &ClusterState,
) -> String {
    let node = cluster.node(cluster.nodes().live()[0]);
    let cycle = crate::framework::CycleState::default();
    plugin
        .filter(&cycle, pod, node)
        .err()
        .map_or_else(String::new, |rejection| rejection.to_string())
}
