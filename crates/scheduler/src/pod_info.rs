//! [`PodInfo`]: what the scheduler knows of a pod: its identity and status, and the [`PodSpec`] that it shares with all
//! pods that are scheduled alike.

pub mod affinity;
mod intern;
pub mod node_selector;
mod raw;
mod requests;
pub mod selector;
pub mod spec;

use std::sync::Arc;

use compact_str::CompactString;
use jiff::Timestamp;
use setpoint_api::object::OwnerReference;
use setpoint_api::{Key, ResourceVersion, Stored};

pub use intern::SpecInterner;
pub use spec::{
    ContainerRequests, HostPort, NonZeroRequests, PodSpec, PodVolume, PreemptionPolicy, Toleration,
    VolumeSource,
};

/// A pod as the queue and the plugins see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PodInfo {
    pub key: Key,
    pub uid: CompactString,
    pub resource_version: ResourceVersion,
    /// Empty while unbound.
    pub node: CompactString,
    /// Its `status.nominatedNodeName`; empty if it has none.
    pub nominated_node: CompactString,
    /// Sorted by name.
    pub labels: Box<[(CompactString, CompactString)]>,
    /// Its controlling owner.
    pub controller: Option<Box<OwnerReference>>,
    /// The names of its scheduling gates.
    pub scheduling_gates: Box<[CompactString]>,
    /// Its ResourceClaims, with the name of each generated claim once it exists.
    pub resource_claims: Box<[ResourceClaimReference]>,
    pub created: Option<Timestamp>,
    /// Its `status.startTime`.
    pub started: Option<Timestamp>,
    /// Whether its status reports other requests than its spec: a resize is in progress.
    pub is_resizing: bool,
    /// Whether a scheduler deletes it to make space for another pod.
    pub is_preempted: bool,
    pub spec: Arc<PodSpec>,
    pub state: SchedulingState,
}

/// A reference of a pod to a ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceClaimReference {
    /// The name of the entry in `spec.resourceClaims`.
    pub name: CompactString,
    /// The name of the claim; `None` until the claim of a template exists.
    pub claim: Option<CompactString>,
    /// Whether the claim is generated from a template.
    pub is_generated: bool,
}

/// Whether a pod takes part in scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingState {
    /// It waits for a node, or runs on one.
    Active,
    /// It is being deleted. It still uses its node, but is not scheduled any more.
    Terminating,
    /// It has run to its end and uses nothing.
    Finished,
}

impl PodInfo {
    /// Decodes a pod; `None` if it cannot be decoded. Equal specs are shared through the interner.
    pub fn read(object: &Stored, interner: &mut SpecInterner) -> Option<Self> {
        let pod: raw::RawPod = object.decode().ok()?;
        let state = match pod.status.phase.as_str() {
            "Succeeded" | "Failed" => SchedulingState::Finished,
            _ if object.header().deleting => SchedulingState::Terminating,
            _ => SchedulingState::Active,
        };
        Some(Self {
            key: object.key().clone(),
            uid: object.uid().into(),
            resource_version: object.resource_version(),
            node: pod.spec.node_name.clone(),
            nominated_node: pod.status.nominated_node_name.clone(),
            labels: object.header().labels.clone(),
            controller: object.controller().cloned().map(Box::new),
            scheduling_gates: pod
                .spec
                .scheduling_gates
                .iter()
                .map(|gate| gate.name.clone())
                .collect(),
            resource_claims: pod.resource_claims(),
            created: pod.metadata.creation_timestamp,
            started: pod.status.start_time,
            is_resizing: requests::is_resizing(&pod),
            is_preempted: object.header().deleting && pod.is_disrupted_by_scheduler(),
            spec: interner.intern(pod.into_spec(object.key().namespace())),
            state,
        })
    }

    pub fn namespace(&self) -> &str {
        self.key.namespace()
    }

    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self
            .labels
            .binary_search_by(|(own, _)| own.as_str().cmp(name))
            .ok()?;
        Some(&self.labels[found].1)
    }

    /// Whether a scheduler has to find a node for it.
    pub fn needs_scheduling(&self) -> bool {
        self.state == SchedulingState::Active && self.node.is_empty()
    }

    /// Whether it uses resources of a node.
    pub fn uses_node(&self) -> bool {
        self.state != SchedulingState::Finished && !self.node.is_empty()
    }

    /// Whether devices may have to be found for it: it has ResourceClaims, or requests resources that a DeviceClass may name.
    pub fn may_use_devices(&self) -> bool {
        !self.resource_claims.is_empty() || self.spec.has_extended_resources()
    }

    pub fn is_terminating(&self) -> bool {
        self.state == SchedulingState::Terminating
    }

    pub fn tolerates(&self, taint: &Toleration) -> bool {
        self.spec.tolerations.iter().any(|own| own.covers(taint))
    }

    /// The same pod on a node: what the scheduler assumes until the binding is confirmed.
    #[must_use]
    pub fn assigned_to(&self, node: &str) -> Self {
        Self {
            node: node.into(),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests;
