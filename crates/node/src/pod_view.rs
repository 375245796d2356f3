//! [`PodView`]: the fields of a Pod by which the agent decides whether to look at the rest.

use std::collections::BTreeMap;

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::simulated;

/// The node that a pod is bound to, and how far its status is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodView {
    metadata: Metadata,
    pub(crate) spec: Spec,
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    generation: i64,
    deletion_timestamp: Option<IgnoredAny>,
    annotations: BTreeMap<CompactString, IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) node_name: CompactString,
    readiness_gates: Vec<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: CompactString,
    observed_generation: i64,
}

impl PodView {
    /// Whether the API has a terminal phase for the pod.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether a simulated pod runs as its spec demands. Then what others write to its status stays, so that the tests of a
    /// controller can make a pod unready; the kubelet would correct it.
    pub(crate) fn is_status_current(&self) -> bool {
        self.status.phase == "Running"
            && self.status.observed_generation == self.metadata.generation
            && self.metadata.deletion_timestamp.is_none()
            && self.spec.readiness_gates.is_empty()
            && !self
                .metadata
                .annotations
                .keys()
                .any(|name| name.starts_with(simulated::ANNOTATION_PREFIX))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(metadata: Value, status: Value, expected: bool) {
        let pod: PodView = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        assert_eq!(pod.is_status_current(), expected);
    }

    #[test]
    fn the_status_of_a_running_pod_is_current_until_its_spec_changes_or_it_is_deleted() {
        let running = json!({"phase": "Running", "observedGeneration": 1});
        check(json!({"generation": 1}), running.clone(), true);
        check(json!({"generation": 2}), running.clone(), false);
        check(
            json!({"generation": 1}),
            json!({"phase": "Pending", "observedGeneration": 1}),
            false,
        );
        let deleted = json!({"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        check(deleted, running.clone(), false);
        let timed = json!({"generation": 1, "annotations": {"simulated.setpoint.dev/ends-after": "5s"}});
        check(timed, running, false);
    }
}
