//! What the scheduler knows of a pod.

use std::collections::BTreeMap;

use compact_str::CompactString;
use k8s_openapi::api::core::v1::NodeSelector;
use serde::Deserialize;
use setpoint_api::{Key, Stored};

use crate::resources::{Resources, Written};

/// What a container without a request is taken to use when nodes are compared.
const ASSUMED_MILLI_CPU: i64 = 100;
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// A pod as the plugins see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInfo {
    pub key: Key,
    pub uid: CompactString,
    /// Empty while no node is chosen.
    pub node: CompactString,
    /// The scheduler that is asked to place it.
    pub scheduler: CompactString,
    pub priority: i32,
    pub requests: Resources,
    /// Processor time and memory that it is taken to use when nodes are compared.
    pub weight: Weight,
    pub tolerations: Vec<Toleration>,
    pub node_selector: BTreeMap<CompactString, CompactString>,
    /// The nodes that its affinity allows.
    pub node_affinity: Option<Box<NodeSelector>>,
    pub life: Life,
}

/// Processor time and memory as they count when nodes are compared: never nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weight {
    pub milli_cpu: i64,
    pub memory: i64,
}

/// Whether a pod takes part in scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It waits for a node, or runs on one.
    Live,
    /// It may not be placed yet, since it names gates.
    Gated,
    /// It is being deleted. It still uses its node, but will not be given one.
    Leaving,
    /// It has run to its end and uses nothing.
    Finished,
}

/// Which taints a pod puts up with.
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
    /// Reads a pod; `None` if it cannot be read.
    pub fn read(object: &Stored) -> Option<Self> {
        let pod: RawPod = object.decode().ok()?;
        let life = pod.life(object.header().deleting);
        let (requests, weight) = asked(&pod.spec);
        let affinity = pod.spec.affinity.node_affinity.required;
        Some(Self {
            key: object.key().clone(),
            uid: object.uid().into(),
            node: pod.spec.node_name,
            scheduler: pod.spec.scheduler_name,
            priority: pod.spec.priority,
            requests,
            weight,
            tolerations: pod.spec.tolerations,
            node_selector: pod.spec.node_selector,
            node_affinity: affinity.map(Box::new),
            life,
        })
    }

    /// Whether it is one that this scheduler should find a node for.
    pub fn is_waiting_for(&self, scheduler: &str) -> bool {
        self.life == Life::Live && self.node.is_empty() && self.scheduler == scheduler
    }

    /// Whether it takes up room on its node.
    pub fn is_placed(&self) -> bool {
        self.life != Life::Finished && !self.node.is_empty()
    }

    pub fn tolerates(&self, taint: &Toleration) -> bool {
        self.tolerations.iter().any(|own| own.covers(taint))
    }
}

// === impl Toleration ===

impl Toleration {
    /// A taint, written as the toleration that fits exactly it.
    pub(crate) fn covers(&self, taint: &Self) -> bool {
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key.is_empty() || self.key == taint.key;
        let value = match self.operator.as_str() {
            "Exists" => true,
            _ => !self.key.is_empty() && self.value == taint.value,
        };
        effect && key && value
    }
}

// === what is asked for ===

/// What a pod asks for in all: its containers and sidecars together, or its most demanding init container with the
/// sidecars that run beside it, whichever is more; and its overhead. What the pod itself asks for goes before the
/// sum of processor time and memory.
fn asked(spec: &RawSpec) -> (Resources, Weight) {
    let (mut running, mut peak, mut sidecars) = Default::default();
    let mut weight = Weight::default();
    for container in &spec.containers {
        Resources::add(&mut running, &container.requests());
        weight.add(&container.resources.requests);
    }
    for container in &spec.init_containers {
        let mut need = container.requests();
        if container.restart_policy == "Always" {
            running.add(&need);
            weight.add(&container.resources.requests);
            Resources::add(&mut sidecars, &need);
            need = sidecars.clone();
        } else {
            need.add(&sidecars);
        }
        Resources::raise_to(&mut peak, &need);
    }
    running.raise_to(&peak);
    for name in ["cpu", "memory"] {
        if let Some(amount) = spec.resources.requests.find(name) {
            running.set(name, amount);
        }
    }
    running.add(&spec.overhead.to_resources());
    weight.raise_to(&running);
    (running, weight)
}

// === impl Weight ===

impl Weight {
    fn add(&mut self, requests: &Written) {
        self.milli_cpu += requests.find("cpu").unwrap_or(ASSUMED_MILLI_CPU);
        self.memory += requests.find("memory").unwrap_or(ASSUMED_MEMORY);
    }

    fn raise_to(&mut self, requests: &Resources) {
        self.milli_cpu = self.milli_cpu.max(requests.milli_cpu);
        self.memory = self.memory.max(requests.memory);
    }
}

// The document as it is written, as far as it matters here.

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
    overhead: Written,
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
    requests: Written,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    phase: CompactString,
}

impl RawPod {
    fn life(&self, deleting: bool) -> Life {
        match self.status.phase.as_str() {
            "Succeeded" | "Failed" => Life::Finished,
            _ if deleting => Life::Leaving,
            _ if !self.spec.scheduling_gates.is_empty() => Life::Gated,
            _ => Life::Live,
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
