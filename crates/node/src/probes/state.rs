//! [`ProbeState`]: the result of a probe, by its last outcomes and its thresholds: pure.

use super::spec::{ProbeKind, ProbeSpec};

/// A probe with its result.
#[derive(Debug, Clone)]
pub(super) struct ProbeState {
    pub(super) spec: ProbeSpec,
    /// The current result; `None` while a startup probe has none.
    pub(super) result: Option<bool>,
    /// The last outcome, and how often in a row it was the same.
    last: Option<bool>,
    run: u32,
    /// Whether the container is about to be replaced, so that it is not probed any more.
    pub(super) is_on_hold: bool,
}

impl ProbeState {
    pub(super) fn new(spec: ProbeSpec) -> Self {
        let result = match spec.kind {
            ProbeKind::Startup => None,
            ProbeKind::Liveness => Some(true),
            ProbeKind::Readiness => Some(false),
        };
        Self {
            spec,
            result,
            last: None,
            run: 0,
            is_on_hold: false,
        }
    }

    /// Counts an outcome. Returns whether the result changed.
    pub(super) fn record(&mut self, outcome: bool) -> bool {
        self.run = if self.last == Some(outcome) {
            self.run + 1
        } else {
            1
        };
        self.last = Some(outcome);
        let threshold = match outcome {
            true => self.spec.success_threshold,
            false => self.spec.failure_threshold,
        };
        if self.run < threshold {
            return false;
        }
        if !outcome && self.spec.kind != ProbeKind::Readiness {
            self.is_on_hold = true;
        }
        if outcome && self.spec.kind == ProbeKind::Startup {
            self.is_on_hold = true;
        }
        let has_changed = self.result != Some(outcome);
        self.result = Some(outcome);
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Container;
    use serde_json::json;

    use super::super::spec::probes;
    use super::*;

    /// The results after each outcome, `+` or `-`, of a probe with success threshold 2 and failure threshold 3.
    #[track_caller]
    fn check(field: &str, outcomes: &str, expected: &str) {
        let probe = json!({"tcpSocket": {"port": 1}, "successThreshold": 2, "failureThreshold": 3});
        let container: Container = serde_json::from_value(json!({"name": "c", field: probe})).unwrap();
        let mut state = ProbeState::new(probes(&container).remove(0));
        let mut shown = String::new();
        for outcome in outcomes.chars() {
            state.record(outcome == '+');
            shown.push(match state.result {
                None => '?',
                Some(true) => '+',
                Some(false) => '-',
            });
        }
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_container_is_ready_after_enough_successes_and_until_enough_failures() {
        check("readinessProbe", "++---++", "-+++--+");
        check("readinessProbe", "+-+-", "----");
    }

    #[test]
    fn a_container_is_alive_until_enough_failures_in_a_row() {
        check("livenessProbe", "--+---", "+++++-");
    }

    #[test]
    fn a_container_has_not_started_before_the_first_result() {
        check("startupProbe", "-++", "??+");
    }

    #[test]
    fn a_probe_has_the_defaults_of_the_kubelet() {
        let container = json!({"name": "c", "livenessProbe": {"exec": {"command": ["true"]}}});
        let container: Container = serde_json::from_value(container).unwrap();
        let spec = probes(&container).remove(0);
        let seconds = [spec.initial_delay, spec.timeout, spec.period].map(|span| span.as_secs());
        assert_eq!(seconds, [0, 1, 10]);
        assert_eq!((spec.success_threshold, spec.failure_threshold), (1, 3));
    }
}
