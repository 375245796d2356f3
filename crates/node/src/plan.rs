//! What to do next with a pod that is bound to one of the agent's nodes: pure.

use std::time::Duration;

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The fields of a Pod that the plan depends on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodView {
    pub(crate) metadata: Meta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Meta {
    generation: i64,
    deletion_timestamp: Option<CompactString>,
    deletion_grace_period_seconds: u64,
    annotations: Annotations,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    /// Set on simulated pods that terminate after a while.
    #[serde(rename = "simulated.setpoint.dev/ends-after")]
    ends_after: Option<CompactString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) node_name: CompactString,
    /// With readiness gates, conditions set by other writers decide whether the pod is ready: each change is reconciled.
    readiness_gates: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    phase: CompactString,
    observed_generation: i64,
}

/// The next action for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodAction {
    /// Nothing: its status is up to date.
    Leave,
    /// Start it, and report its status.
    Sync,
    /// Stop it, then delete it from the API.
    Kill { grace: Duration },
}

/// The next action for a pod that is bound to one of the agent's nodes.
pub(crate) fn plan(pod: &PodView) -> PodAction {
    if pod.metadata.deletion_timestamp.is_some() {
        let grace = Duration::from_secs(pod.metadata.deletion_grace_period_seconds);
        return PodAction::Kill { grace };
    }
    match pod.status.phase.as_str() {
        "Succeeded" | "Failed" => PodAction::Leave,
        "Running" if pod.is_status_current() => PodAction::Leave,
        _ => PodAction::Sync,
    }
}

impl PodView {
    /// Whether the status reflects the newest spec, and nothing else can change it.
    fn is_status_current(&self) -> bool {
        self.status.observed_generation == self.metadata.generation
            && self.spec.readiness_gates.is_empty()
            && self.metadata.annotations.ends_after.is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(metadata: Value, status: Value, expected: PodAction) {
        let pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        assert_eq!(plan(&pod), expected);
    }

    /// FL6
    #[test]
    fn a_pod_that_is_not_running_is_started() {
        check(json!({"generation": 1}), json!({}), PodAction::Sync);
        check(
            json!({"generation": 1}),
            json!({"phase": "Pending"}),
            PodAction::Sync,
        );
    }

    #[test]
    fn a_pod_whose_status_is_older_than_its_spec_is_reported_again() {
        check(
            json!({"generation": 2}),
            json!({"phase": "Running", "observedGeneration": 1}),
            PodAction::Sync,
        );
    }

    #[test]
    fn a_pod_that_runs_or_has_ended_is_left_alone() {
        check(
            json!({"generation": 1}),
            json!({"phase": "Running", "observedGeneration": 1}),
            PodAction::Leave,
        );
        check(
            json!({"generation": 1}),
            json!({"phase": "Failed"}),
            PodAction::Leave,
        );
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_stopped_within_its_grace() {
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30});
        let grace = Duration::from_secs(30);
        check(
            deleting.clone(),
            json!({"phase": "Running"}),
            PodAction::Kill { grace },
        );
        check(deleting, json!({"phase": "Failed"}), PodAction::Kill { grace });
    }
}
