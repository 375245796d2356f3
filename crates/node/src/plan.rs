//! What to do about a pod on one of our nodes: pure.

use std::time::Duration;

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The few fields that decide.
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
    /// When the pod ends is decided by time.
    #[serde(rename = "simulated.setpoint.dev/ends-after")]
    ends_after: Option<CompactString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) node_name: CompactString,
    /// Conditions set by others decide whether the pod is ready: each change of them is looked at.
    readiness_gates: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    phase: CompactString,
    observed_generation: i64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its status tells all there is to tell.
    Leave,
    /// See to it that it runs, and say so.
    Run,
    /// See to it that it stops, then let go of it.
    Stop { grace: Duration },
}

/// Decides for a pod on one of our nodes.
pub(crate) fn step(pod: &PodView) -> Step {
    if pod.metadata.deletion_timestamp.is_some() {
        let grace = Duration::from_secs(pod.metadata.deletion_grace_period_seconds);
        return Step::Stop { grace };
    }
    match pod.status.phase.as_str() {
        "Succeeded" | "Failed" => Step::Leave,
        "Running" if pod.is_told() => Step::Leave,
        _ => Step::Run,
    }
}

impl PodView {
    /// Whether the status answers the newest spec, and nothing else can change it.
    fn is_told(&self) -> bool {
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
    fn check(metadata: Value, status: Value, expected: Step) {
        let pod = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        assert_eq!(step(&pod), expected);
    }

    /// FL6
    #[test]
    fn a_pod_that_is_not_up_is_brought_up() {
        check(json!({"generation": 1}), json!({}), Step::Run);
        check(json!({"generation": 1}), json!({"phase": "Pending"}), Step::Run);
    }

    #[test]
    fn a_pod_whose_status_is_older_than_its_spec_is_reported_anew() {
        check(
            json!({"generation": 2}),
            json!({"phase": "Running", "observedGeneration": 1}),
            Step::Run,
        );
    }

    #[test]
    fn a_pod_that_runs_or_has_ended_is_left_alone() {
        check(
            json!({"generation": 1}),
            json!({"phase": "Running", "observedGeneration": 1}),
            Step::Leave,
        );
        check(json!({"generation": 1}), json!({"phase": "Failed"}), Step::Leave);
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_stopped_within_its_grace() {
        let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30});
        let grace = Duration::from_secs(30);
        check(
            deleting.clone(),
            json!({"phase": "Running"}),
            Step::Stop { grace },
        );
        check(deleting, json!({"phase": "Failed"}), Step::Stop { grace });
    }
}
