//! What the scheduler knows of a node: what it offers and what of that is taken.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Stored;

use crate::pod_info::{PodInfo, Toleration, Weight};
use crate::resources::{Resources, Written};

/// A node and the sum of its pods.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    pub name: CompactString,
    /// What its object says. Absent while only pods speak of the node: nothing is placed there.
    pub offer: Option<Offer>,
    /// What the pods on it ask for.
    pub requested: Resources,
    /// What they are taken to use when nodes are compared.
    pub weight: Weight,
    pub pods: i64,
}

/// What a node says of itself, as far as it decides where pods go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNode")]
pub struct Offer {
    pub allocatable: Resources,
    pub max_pods: i64,
    pub unschedulable: bool,
    pub taints: Vec<Toleration>,
    pub labels: BTreeMap<CompactString, CompactString>,
}

// === impl NodeInfo ===

impl NodeInfo {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            offer: None,
            requested: Resources::default(),
            weight: Weight::default(),
            pods: 0,
        }
    }

    pub(crate) fn add(&mut self, pod: &PodInfo) {
        self.requested.add(&pod.requests);
        self.weight.milli_cpu += pod.weight.milli_cpu;
        self.weight.memory += pod.weight.memory;
        self.pods += 1;
    }

    pub(crate) fn remove(&mut self, pod: &PodInfo) {
        self.requested.subtract(&pod.requests);
        self.weight.milli_cpu -= pod.weight.milli_cpu;
        self.weight.memory -= pod.weight.memory;
        self.pods -= 1;
    }

    /// Whether nothing is known of it any more.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.offer.is_none() && self.pods == 0
    }
}

// === impl Offer ===

impl Offer {
    /// Reads a node; one that cannot be read offers nothing.
    pub(crate) fn read(object: &Stored) -> Self {
        object.decode().unwrap_or_default()
    }
}

impl From<RawNode> for Offer {
    fn from(node: RawNode) -> Self {
        let allocatable = match node.status.allocatable.is_empty() {
            true => node.status.capacity,
            false => node.status.allocatable,
        };
        Self {
            max_pods: allocatable.find("pods").unwrap_or(0),
            allocatable: allocatable.to_resources(),
            unschedulable: node.spec.unschedulable,
            taints: node.spec.taints,
            labels: node.metadata.labels,
        }
    }
}

// The document as it is written, as far as it matters here.

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode {
    metadata: RawMeta,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMeta {
    labels: BTreeMap<CompactString, CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    unschedulable: bool,
    taints: Vec<Toleration>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    capacity: Written,
    allocatable: Written,
}
