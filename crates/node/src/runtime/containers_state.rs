//! The state of the containers of a simulated pod: pure.
//!
//! Simulated containers exit as the annotations of their pod specify. The state is a function of the time since the pod was
//! started, so a restarted agent computes the same.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ContainersState;
use crate::pod::Pod;

/// After how long the containers exit, such as `5s` or `2m`; without it they run for ever.
const ENDS_AFTER: &str = "simulated.setpoint.dev/ends-after";
/// Their exit code; 0 by default.
const EXIT_CODE: &str = "simulated.setpoint.dev/exit-code";

/// The state at `now` of the containers of a pod that was started at `started`.
pub(super) fn containers_state(now: Timestamp, started: Timestamp, pod: &Pod) -> ContainersState {
    let Some(lifetime) = lifetime(pod) else {
        return running(started, 0, None);
    };
    let passed = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    let exit_code = annotation(pod, EXIT_CODE)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    if restarts_after(pod, exit_code) {
        let restarts = u32::try_from(passed.as_millis() / lifetime.as_millis()).unwrap_or(u32::MAX);
        let begun = lifetime.saturating_mul(restarts);
        let recheck_after = (begun + lifetime).saturating_sub(passed);
        return running(
            later(started, begun),
            i32::try_from(restarts).unwrap_or(i32::MAX),
            Some(recheck_after),
        );
    }
    match lifetime.checked_sub(passed).filter(|left| !left.is_zero()) {
        Some(left) => running(started, 0, Some(left)),
        None => ContainersState::Terminated {
            exit_code,
            at: later(started, lifetime),
        },
    }
}

fn running(since: Timestamp, restarts: i32, recheck_after: Option<Duration>) -> ContainersState {
    ContainersState::Running {
        since,
        restarts,
        recheck_after,
    }
}

fn lifetime(pod: &Pod) -> Option<Duration> {
    let text = annotation(pod, ENDS_AFTER)?;
    let lifetime = Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()?;
    (lifetime >= Duration::from_millis(1)).then_some(lifetime)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.get(name).map(String::as_str)
}

/// Whether the restart policy restarts containers with this exit code.
fn restarts_after(pod: &Pod, exit_code: i32) -> bool {
    match pod.spec.restart_policy.as_str() {
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The state at second 25 of a pod that was started at second 0: `running since 20, 2 restarts, recheck in 5` or
    /// `ended with 3 at 10`.
    #[track_caller]
    fn check(policy: &str, lifetime: &str, code: &str, expected: &str) {
        let pod = serde_json::from_value(json!({
            "metadata": {"annotations": {ENDS_AFTER: lifetime, EXIT_CODE: code}},
            "spec": {"restartPolicy": policy, "containers": []},
        }));
        let at = |second| Timestamp::from_second(second).unwrap();
        let shown = match containers_state(at(25), at(0), &pod.unwrap()) {
            ContainersState::Running {
                since,
                restarts,
                recheck_after,
            } => {
                let recheck_after = recheck_after.map_or("never".to_owned(), |recheck_after| {
                    format!("in {}", recheck_after.as_secs())
                });
                format!(
                    "running since {}, {restarts} restarts, recheck {recheck_after}",
                    since.as_second()
                )
            }
            ContainersState::Terminated { exit_code, at } => {
                format!("ended with {exit_code} at {}", at.as_second())
            }
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn fl8_a_pod_that_is_not_started_again_ends_in_its_time() {
        check("Never", "10s", "0", "ended with 0 at 10");
        check("Never", "10s", "3", "ended with 3 at 10");
        check("OnFailure", "10s", "0", "ended with 0 at 10");
        check("Never", "1m", "3", "running since 0, 0 restarts, recheck in 35");
    }

    #[test]
    fn fl8_a_pod_that_is_started_again_counts_its_restarts() {
        check("Always", "10s", "0", "running since 20, 2 restarts, recheck in 5");
        check(
            "OnFailure",
            "10s",
            "1",
            "running since 20, 2 restarts, recheck in 5",
        );
    }

    #[test]
    fn a_pod_with_an_invalid_annotation_runs_for_ever() {
        check("Never", "soon", "0", "running since 0, 0 restarts, recheck never");
        check("Never", "0s", "0", "running since 0, 0 restarts, recheck never");
    }
}
