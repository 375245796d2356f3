//! A pod as the controllers of pods read it: the stored object and a few decoded fields.
//!
//! There are many pods: the view is decoded once from the stored bytes, and all controllers share it. It has the phase,
//! the node and the readiness, and no list. What one controller reads in addition is a view of its own, without these
//! fields: the addresses and ports of endpoints, the requests of an autoscaler's pods, the containers' ends of a Job's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use serde::Deserialize;
use setpoint_api::Stored;
use setpoint_runtime::Lister;

/// A pod: the stored object and its view.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    object: Arc<Stored>,
    view: Arc<PodView>,
}

/// The fields that several controllers depend on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct PodView {
    pub(crate) phase: Phase,
    /// Empty until it is bound.
    pub(crate) node: CompactString,
    pub(crate) readiness: Readiness,
    /// When the node agent accepted it.
    pub(crate) started: Option<Timestamp>,
    /// The most restarts of a container, and of a sidecar.
    pub(crate) restarts: (i32, i32),
    /// The pod-deletion-cost annotation; lower costs are deleted first.
    pub(crate) cost: i32,
    pub(crate) created: Timestamp,
}

/// The Ready condition of a pod, with the time of its last transition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// There is no such condition yet.
    #[default]
    Absent,
    Ready(Timestamp),
    NotReady(Timestamp),
    /// The node does not report any more.
    Unknown(Timestamp),
}

/// The phase of a pod, ordered as pods are deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "CompactString")]
pub(crate) enum Phase {
    #[default]
    Pending,
    Unknown,
    Running,
    Succeeded,
    Failed,
}

/// The index of pods by the node they are bound to.
pub(crate) const BY_NODE: &str = "node";

/// Adds the index of pods by node.
pub(crate) fn index_by_node(pods: &Lister<v1::Pod>) {
    pods.cache().add_index(BY_NODE, |pod| {
        let node = pod.field("spec.nodeName").filter(|node| !node.is_empty());
        node.map(Into::into).into_iter().collect()
    });
}

// === impl Pod ===

impl Pod {
    /// Reads a pod. One that cannot be decoded still counts, as an unready one.
    pub(crate) fn read(object: Arc<Stored>) -> Self {
        let view = object
            .view::<PodView>()
            .unwrap_or_else(|_| Arc::new(PodView::unreadable()));
        Self { object, view }
    }

    pub(crate) fn object(&self) -> &Arc<Stored> {
        &self.object
    }

    pub(crate) fn view(&self) -> &PodView {
        &self.view
    }

    /// Whether it has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.view.phase, Phase::Succeeded | Phase::Failed)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.object.header().deleting
    }

    /// Whether it counts as a replica.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_deleting()
    }

    /// Whether it is being deleted but has not finished.
    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_finished() && self.is_deleting()
    }

    pub(crate) fn has_labels(&self, labels: &BTreeMap<CompactString, CompactString>) -> bool {
        labels
            .iter()
            .all(|(name, value)| self.object.label(name) == Some(value))
    }
}

// === impl PodView ===

impl PodView {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready_since().is_some()
    }

    /// When it became ready; `None` while it is not.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        match self.readiness {
            Readiness::Ready(since) => Some(since),
            Readiness::Absent | Readiness::NotReady(_) | Readiness::Unknown(_) => None,
        }
    }

    fn unreadable() -> Self {
        Self::from(RawPod {
            status: RawPodStatus {
                phase: Phase::Unknown,
                ..RawPodStatus::default()
            },
            ..RawPod::default()
        })
    }
}

impl From<RawPod> for PodView {
    fn from(pod: RawPod) -> Self {
        let ready = pod.status.conditions.iter().find(|one| one.type_ == "Ready");
        Self {
            phase: pod.status.phase,
            readiness: ready.map(RawCondition::readiness).unwrap_or_default(),
            started: pod.status.start_time,
            restarts: (
                most_restarts(&pod.status.container_statuses, |_| true),
                most_restarts(&pod.status.init_container_statuses, |name| {
                    pod.spec.is_sidecar(name)
                }),
            ),
            cost: pod.metadata.annotations.cost.parse().unwrap_or_default(),
            created: pod.metadata.creation_timestamp.unwrap_or_default(),
            node: pod.spec.node_name,
        }
    }
}

fn most_restarts(containers: &[RawContainerStatus], counts: impl Fn(&str) -> bool) -> i32 {
    let counted = containers.iter().filter(|one| counts(&one.name));
    counted.map(|one| one.restart_count).max().unwrap_or(0)
}

// === impl Phase ===

impl From<CompactString> for Phase {
    fn from(phase: CompactString) -> Self {
        match phase.as_str() {
            "" | "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

/// How long until the pod is available; `None` if it is not ready.
pub(crate) fn available_in(now: Timestamp, pod: &Pod, min_ready_seconds: i64) -> Option<Duration> {
    let ready_since = pod.view().ready_since()?;
    let ready_for = now.duration_since(ready_since);
    let left = jiff::SignedDuration::from_secs(min_ready_seconds) - ready_for;
    Some(Duration::try_from(left).unwrap_or_default())
}

// The pod as serialized, limited to the fields read here.

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: RawPodMeta,
    spec: RawPodSpec,
    status: RawPodStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodMeta {
    creation_timestamp: Option<Timestamp>,
    annotations: RawAnnotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAnnotations {
    #[serde(rename = "controller.kubernetes.io/pod-deletion-cost")]
    cost: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodSpec {
    node_name: CompactString,
    init_containers: Vec<RawContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    name: CompactString,
    #[serde(default)]
    restart_policy: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodStatus {
    phase: Phase,
    start_time: Option<Timestamp>,
    conditions: Vec<RawCondition>,
    container_statuses: Vec<RawContainerStatus>,
    init_container_statuses: Vec<RawContainerStatus>,
}

/// A condition of a pod.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawCondition {
    #[serde(rename = "type")]
    pub(crate) type_: CompactString,
    pub(crate) status: CompactString,
    pub(crate) last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainerStatus {
    name: CompactString,
    #[serde(default)]
    restart_count: i32,
}

impl RawPodSpec {
    /// A sidecar is an init container with restart policy Always.
    fn is_sidecar(&self, name: &str) -> bool {
        let found = self.init_containers.iter().find(|one| one.name == name);
        found.is_some_and(|one| one.restart_policy == "Always")
    }
}

impl RawCondition {
    /// The readiness by a Ready condition.
    fn readiness(&self) -> Readiness {
        let since = self.last_transition_time.unwrap_or_default();
        match self.status.as_str() {
            "True" => Readiness::Ready(since),
            "False" => Readiness::NotReady(since),
            _ => Readiness::Unknown(since),
        }
    }
}
