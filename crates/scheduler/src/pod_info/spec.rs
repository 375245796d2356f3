//! [`PodSpec`]: the fields of a pod's spec that scheduling depends on.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use setpoint_values::toleration;

use super::affinity::{PodAffinity, TopologySpreadConstraint};
use super::node_selector::{NodeSelector, PreferredSchedulingTerm};
use crate::resources::Resources;

/// The scheduling inputs of a pod, apart from its labels, its namespace and its status.
///
/// Pods with equal specs share one allocation (see [`super::SpecInterner`]).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// Its `spec.schedulerName`.
    pub scheduler: CompactString,
    pub priority: i32,
    pub preemption_policy: PreemptionPolicy,
    pub requests: Resources,
    /// CPU and memory requests with defaults, for scoring.
    pub non_zero_requests: NonZeroRequests,
    pub tolerations: Vec<Toleration>,
    pub node_selector: BTreeMap<CompactString, CompactString>,
    pub required_node_affinity: Option<NodeSelector>,
    pub preferred_node_affinity: Vec<PreferredSchedulingTerm>,
    pub affinity: PodAffinity,
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// The host ports of its containers and sidecars.
    pub host_ports: Vec<HostPort>,
    /// The images of its init containers, containers and image volumes, with a tag or digest.
    pub images: Vec<CompactString>,
    pub volumes: Vec<PodVolume>,
    /// Its init containers and containers, if it requests a resource that a DeviceClass may back.
    pub containers_with_extended_resources: Vec<ContainerRequests>,
    /// Node features that its fields require (upstream: NodeDeclaredFeatures).
    pub required_features: Vec<CompactString>,
}

/// Whether a pod may preempt pods of lower priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PreemptionPolicy {
    #[default]
    PreemptLowerPriority,
    Never,
}

/// CPU and memory requests, with a default per container where none is set, for scoring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct NonZeroRequests {
    pub milli_cpu: i64,
    pub memory: i64,
}

/// The requests of a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainerRequests {
    pub name: CompactString,
    /// Whether it is an init container, and no sidecar.
    pub ends_before_others: bool,
    /// By name, with the amount in the unit in which the resource is counted.
    pub requests: Vec<(CompactString, i64)>,
}

/// A toleration of a pod. A taint has the same fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Toleration {
    pub key: CompactString,
    pub operator: CompactString,
    pub value: CompactString,
    pub effect: CompactString,
}

/// A port of the node that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// `0.0.0.0` for all addresses.
    pub ip: CompactString,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: CompactString,
    pub port: i32,
}

/// A volume of a pod, as far as it matters to scheduling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodVolume {
    pub name: CompactString,
    pub source: VolumeSource,
}

/// The source of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// A PersistentVolumeClaim of this name.
    Claim { name: CompactString, read_only: bool },
    /// A PersistentVolumeClaim that is created with the pod, named `<pod>-<volume>`.
    Ephemeral,
    /// A disk that a node attaches, by its identity: in-tree sources that exclude each other.
    Disk(Disk),
    /// A CSI volume without a claim.
    Csi { driver: CompactString },
}

/// A disk of an in-tree volume source that pods cannot share freely.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Disk {
    GcePersistentDisk {
        pd_name: CompactString,
        read_only: bool,
    },
    AwsElasticBlockStore {
        volume_id: CompactString,
    },
    Iscsi {
        iqn: CompactString,
        read_only: bool,
    },
    Rbd {
        monitors: Vec<CompactString>,
        pool: CompactString,
        image: CompactString,
        read_only: bool,
    },
}

impl PodSpec {
    /// Whether it requests resources that a DeviceClass may back.
    pub fn has_extended_resources(&self) -> bool {
        !self.containers_with_extended_resources.is_empty()
    }
}

impl HostPort {
    /// Whether both cannot be used on one node: the same port and protocol, on the same address or with one of them on
    /// all addresses.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let is_any = |ip: &str| ip == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || is_any(&self.ip) || is_any(&other.ip))
    }
}

impl Toleration {
    /// Whether it tolerates the taint.
    pub fn covers(&self, taint: &Self) -> bool {
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
