//! [`PodInfo`]: what the scheduler knows of a pod.

use std::collections::BTreeMap;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::NodeSelector;
use serde::Deserialize;
use setpoint_api::{Key, Stored};
use setpoint_values::resource_list::{self, Amounts, InitContainer};
use setpoint_values::toleration;

use crate::resources::{ResourceList, Resources};

/// The request of a container without one, for scoring (upstream: `DefaultMilliCPURequest`, `DefaultMemoryRequest`).
const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
const DEFAULT_MEMORY_REQUEST: i64 = 200 * 1024 * 1024;

/// A pod as the plugins see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInfo {
    pub key: Key,
    pub uid: CompactString,
    /// Empty while unbound.
    pub node: CompactString,
    /// Its `spec.schedulerName`.
    pub scheduler: CompactString,
    pub priority: i32,
    pub requests: Resources,
    /// CPU and memory requests with defaults, for scoring.
    pub non_zero_requests: NonZeroRequests,
    pub tolerations: Vec<Toleration>,
    pub node_selector: BTreeMap<CompactString, CompactString>,
    /// Its required node affinity.
    pub node_affinity: Option<Box<NodeSelector>>,
    pub state: SchedulingState,
}

/// CPU and memory requests, with a default per container where none is set, for scoring: never zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NonZeroRequests {
    pub milli_cpu: i64,
    pub memory: i64,
}

/// Whether a pod takes part in scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingState {
    /// It waits for a node, or runs on one.
    Active,
    /// It may not be scheduled yet: it has scheduling gates.
    Gated,
    /// It is being deleted. It still uses its node, but is not scheduled any more.
    Terminating,
    /// It has run to its end and uses nothing.
    Finished,
}

/// A toleration of a pod. A taint has the same fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    pub key: CompactString,
    pub operator: CompactString,
    pub value: CompactString,
    pub effect: CompactString,
}

// === impl PodInfo ===

impl PodInfo {
    /// Decodes a pod; `None` if it cannot be decoded.
    pub fn read(object: &Stored) -> Option<Self> {
        let pod: RawPod = object.decode().ok()?;
        let state = pod.state(object.header().deleting);
        let (requests, non_zero_requests) = pod_requests(&pod.spec);
        let affinity = pod.spec.affinity.node_affinity.required;
        Some(Self {
            key: object.key().clone(),
            uid: object.uid().into(),
            node: pod.spec.node_name,
            scheduler: pod.spec.scheduler_name,
            priority: pod.spec.priority,
            requests,
            non_zero_requests,
            tolerations: pod.spec.tolerations,
            node_selector: pod.spec.node_selector,
            node_affinity: affinity.map(Box::new),
            state,
        })
    }

    /// Whether this scheduler should find a node for it.
    pub fn needs_scheduling_by(&self, scheduler: &str) -> bool {
        self.state == SchedulingState::Active && self.node.is_empty() && self.scheduler == scheduler
    }

    /// Whether it uses resources of a node.
    pub fn uses_node(&self) -> bool {
        self.state != SchedulingState::Finished && !self.node.is_empty()
    }

    pub fn tolerates(&self, taint: &Toleration) -> bool {
        self.tolerations.iter().any(|own| own.covers(taint))
    }
}

// === impl Toleration ===

impl Toleration {
    /// Whether it tolerates the taint.
    pub(crate) fn covers(&self, taint: &Self) -> bool {
        let own = toleration::Toleration {
            key: &self.key,
            operator: &self.operator,
            value: &self.value,
            effect: &self.effect,
        };
        own.tolerates(toleration::Taint {
            key: &taint.key,
            value: &taint.value,
            effect: &taint.effect,
        })
    }
}

// === requests ===

/// The requests of a pod: those of its containers and its overhead. Pod-level requests take precedence over the sum for
/// CPU and memory.
fn pod_requests(spec: &RawSpec) -> (Resources, NonZeroRequests) {
    let init = |container: &RawContainer| InitContainer::new(&container.restart_policy, container.requests());
    let mut requests = resource_list::sum_of_containers(
        spec.containers.iter().map(RawContainer::requests),
        spec.init_containers.iter().map(init),
    );
    for name in ["cpu", "memory"] {
        if let Some(amount) = spec.resources.requests.find(name) {
            requests.set(name, amount);
        }
    }
    requests.add(&spec.overhead.to_resources());
    let mut non_zero = NonZeroRequests::default();
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|one| one.restart_policy == "Always");
    for container in spec.containers.iter().chain(sidecars) {
        non_zero.add(&container.resources.requests);
    }
    non_zero.raise_to(&requests);
    (requests, non_zero)
}

// === impl NonZeroRequests ===

impl NonZeroRequests {
    fn add(&mut self, requests: &ResourceList) {
        self.milli_cpu += requests.find("cpu").unwrap_or(DEFAULT_MILLI_CPU_REQUEST);
        self.memory += requests.find("memory").unwrap_or(DEFAULT_MEMORY_REQUEST);
    }

    fn raise_to(&mut self, requests: &Resources) {
        self.milli_cpu = self.milli_cpu.max(requests.milli_cpu);
        self.memory = self.memory.max(requests.memory);
    }
}

// The JSON of a Pod, as far as it matters here.

#[derive(Deserialize)]
struct RawPod {
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    #[serde(default)]
    node_name: CompactString,
    #[serde(default)]
    scheduler_name: CompactString,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    tolerations: Vec<Toleration>,
    #[serde(default)]
    node_selector: BTreeMap<CompactString, CompactString>,
    #[serde(default)]
    affinity: RawAffinity,
    #[serde(default)]
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    #[serde(default)]
    containers: Vec<RawContainer>,
    #[serde(default)]
    init_containers: Vec<RawContainer>,
    #[serde(default)]
    overhead: ResourceList,
    #[serde(default)]
    resources: RawResources,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawAffinity {
    node_affinity: RawNodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    #[serde(default)]
    resources: RawResources,
    #[serde(default)]
    restart_policy: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResources {
    requests: ResourceList,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    phase: CompactString,
}

impl RawPod {
    fn state(&self, deleting: bool) -> SchedulingState {
        match self.status.phase.as_str() {
            "Succeeded" | "Failed" => SchedulingState::Finished,
            _ if deleting => SchedulingState::Terminating,
            _ if !self.spec.scheduling_gates.is_empty() => SchedulingState::Gated,
            _ => SchedulingState::Active,
        }
    }
}

impl RawContainer {
    fn requests(&self) -> Resources {
        self.resources.requests.to_resources()
    }
}

#[cfg(test)]
mod tests;
