//! [`NodeInfo`]: what the scheduler knows of a node: its allocatable resources, and what its pods request.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_values::resource_list::Amounts;

use crate::pod_info::{NonZeroRequests, PodInfo, Toleration};
use crate::resources::{ResourceList, Resources};

/// A node and the sums over its pods.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    pub name: CompactString,
    /// Read from the Node object. Absent while only pods refer to the node: nothing is scheduled there.
    pub properties: Option<NodeProperties>,
    /// The sum of the requests of its pods.
    pub requested: Resources,
    /// The sum of their requests with defaults, for scoring.
    pub non_zero_requests: NonZeroRequests,
    pub pods: i64,
}

/// The fields of a Node object that the plugins use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNode")]
pub struct NodeProperties {
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
            properties: None,
            requested: Resources::default(),
            non_zero_requests: NonZeroRequests::default(),
            pods: 0,
        }
    }

    pub(crate) fn add(&mut self, pod: &PodInfo) {
        self.requested.add(&pod.requests);
        self.non_zero_requests.milli_cpu += pod.non_zero_requests.milli_cpu;
        self.non_zero_requests.memory += pod.non_zero_requests.memory;
        self.pods += 1;
    }

    pub(crate) fn remove(&mut self, pod: &PodInfo) {
        self.requested.subtract(&pod.requests);
        self.non_zero_requests.milli_cpu -= pod.non_zero_requests.milli_cpu;
        self.non_zero_requests.memory -= pod.non_zero_requests.memory;
        self.pods -= 1;
    }

    /// Whether it has neither a Node object nor pods.
    pub(crate) fn is_unused(&self) -> bool {
        self.properties.is_none() && self.pods == 0
    }
}

// === impl NodeProperties ===

impl NodeProperties {
    /// Decodes a Node; one that cannot be decoded has no resources.
    pub(crate) fn read(object: &Stored) -> Self {
        object.decode().unwrap_or_default()
    }
}

impl From<RawNode> for NodeProperties {
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

// The JSON of a Node, as far as it matters here.

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
    capacity: ResourceList,
    allocatable: ResourceList,
}
