//! A pod as the Job controller reads it.

use std::sync::Arc;

use compact_str::CompactString;
use jiff::Timestamp;
use serde::Deserialize;
use setpoint_api::Stored;

use crate::pods::{self, RawCondition};

/// The finalizer that keeps a pod until it has been counted.
pub(crate) const TRACKER: &str = "batch.kubernetes.io/job-tracking";
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub(crate) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub(crate) const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// A pod of a Job.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) pod: pods::Pod,
    pub(crate) view: Arc<View>,
}

/// The fields that a Job needs in addition to [`pods::Pod`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub(crate) struct View {
    /// Whether it has the tracking finalizer, so is still to be counted.
    pub(crate) is_tracked: bool,
    pub(crate) index: Option<u32>,
    /// How often the earlier pods of its index have failed: counted, and ignored.
    pub(crate) failures: i32,
    pub(crate) ignored_failures: i32,
    /// How often its containers were restarted.
    pub(crate) restarts: i32,
    /// The terminated containers, by name and exit code.
    pub(crate) ended: Vec<(CompactString, i32)>,
    /// Its conditions, by type and status.
    pub(crate) conditions: Vec<(CompactString, CompactString)>,
    /// When it finished, as far as known.
    pub(crate) finished: Option<Timestamp>,
}

impl Pod {
    /// Reads a pod. One that cannot be decoded is not counted.
    pub(crate) fn read(object: Arc<Stored>) -> Self {
        let view = object.view::<View>().unwrap_or_default();
        Self {
            pod: pods::Pod::read(object),
            view,
        }
    }

    pub(crate) fn uid(&self) -> &str {
        self.pod.object().uid()
    }

    pub(crate) fn has_succeeded(&self) -> bool {
        self.pod.view().phase == pods::Phase::Succeeded
    }

    /// Whether it counts as failed. A terminating one does unless the Job's pod replacement policy is `Failed`.
    pub(crate) fn has_failed(&self, replaces_failed_only: bool) -> bool {
        let is_terminating = self.pod.is_deleting() && !self.has_succeeded();
        self.pod.view().phase == pods::Phase::Failed || (!replaces_failed_only && is_terminating)
    }

    /// When it finished; its creation time if that is unknown.
    pub(crate) fn finished(&self) -> Timestamp {
        self.view.finished.unwrap_or(self.pod.view().created)
    }
}

// === impl View ===

impl From<RawPod> for View {
    fn from(pod: RawPod) -> Self {
        let statuses = || {
            pod.status
                .container_statuses
                .iter()
                .chain(&pod.status.init_container_statuses)
        };
        let ended =
            statuses().filter_map(|one| Some((one.name.clone(), one.state.terminated.as_ref()?.exit_code)));
        let annotation = |name: &str| {
            let found = pod.metadata.annotations.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| value.as_str())
        };
        let count = |name: &str| annotation(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Self {
            is_tracked: pod.metadata.finalizers.iter().any(|own| own == TRACKER),
            index: annotation(INDEX).and_then(|text| text.parse().ok()),
            failures: count(FAILURES),
            ignored_failures: count(IGNORED_FAILURES),
            restarts: statuses().map(|one| one.restart_count).sum(),
            ended: ended.collect(),
            finished: pod.finished(),
            conditions: pod
                .status
                .conditions
                .into_iter()
                .map(|one| (one.type_, one.status))
                .collect(),
        }
    }
}

// The pod as serialized, limited to the fields read here.

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: RawMeta,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMeta {
    finalizers: Vec<CompactString>,
    annotations: std::collections::BTreeMap<CompactString, CompactString>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    container_statuses: Vec<RawContainer>,
    init_container_statuses: Vec<RawContainer>,
    conditions: Vec<RawCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawContainer {
    name: CompactString,
    restart_count: i32,
    state: RawState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawState {
    terminated: Option<RawEnd>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawEnd {
    exit_code: i32,
    finished_at: Option<Timestamp>,
}

impl RawPod {
    /// When the last container terminated; else when it stopped being ready; else when it was deleted.
    fn finished(&self) -> Option<Timestamp> {
        let ends = self.status.container_statuses.iter();
        let ends: Option<Vec<Timestamp>> = ends
            .map(|one| one.state.terminated.as_ref()?.finished_at)
            .collect();
        let unready = || {
            let mut conditions = self.status.conditions.iter();
            conditions
                .find(|one| one.type_ == "Ready" && one.status == "False")?
                .last_transition_time
        };
        let deleted = || {
            let grace = jiff::SignedDuration::from_secs(self.metadata.deletion_grace_period_seconds);
            self.metadata.deletion_timestamp?.checked_sub(grace).ok()
        };
        ends.and_then(|ends| ends.into_iter().max())
            .or_else(unready)
            .or_else(deleted)
    }
}
