//! How long a simulated pod lives: pure.
//!
//! Real containers end by themselves; simulated ones do when their pod says so in its annotations. All follows from the
//! time since the pod was started, so an agent that is started anew comes to the same answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::Life;

/// After how long the containers end, such as `5s` or `2m`; without it they run for ever.
const ENDS_AFTER: &str = "simulated.setpoint.dev/ends-after";
/// With which code they end; 0 if it is not said.
const EXIT_CODE: &str = "simulated.setpoint.dev/exit-code";

/// How a pod fares that was started then.
pub(super) fn life(now: Timestamp, started: Timestamp, pod: &Pod) -> Life {
    let Some(lasts) = lasts(pod) else {
        return running(started, 0, None);
    };
    let passed = Duration::try_from(now.duration_since(started)).unwrap_or_default();
    let exit_code = annotation(pod, EXIT_CODE)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    if is_restarted(pod, exit_code) {
        let restarts = u32::try_from(passed.as_millis() / lasts.as_millis()).unwrap_or(u32::MAX);
        let begun = lasts.saturating_mul(restarts);
        let look = (begun + lasts).saturating_sub(passed);
        return running(
            later(started, begun),
            i32::try_from(restarts).unwrap_or(i32::MAX),
            Some(look),
        );
    }
    match lasts.checked_sub(passed).filter(|left| !left.is_zero()) {
        Some(left) => running(started, 0, Some(left)),
        None => Life::Ended {
            exit_code,
            at: later(started, lasts),
        },
    }
}

fn running(since: Timestamp, restarts: i32, look: Option<Duration>) -> Life {
    Life::Running {
        since,
        restarts,
        look,
    }
}

fn lasts(pod: &Pod) -> Option<Duration> {
    let text = annotation(pod, ENDS_AFTER)?;
    let lasts = Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()?;
    (lasts >= Duration::from_millis(1)).then_some(lasts)
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let annotations = pod.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

/// Whether containers that end so are started again.
fn is_restarted(pod: &Pod, exit_code: i32) -> bool {
    let spec = pod.spec.as_ref();
    match spec.and_then(|spec| spec.restart_policy.as_deref()) {
        Some("Never") => false,
        Some("OnFailure") => exit_code != 0,
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

    /// How a pod fares at second 25 that was started at second 0: `running since 20, 2 restarts, look in 5` or
    /// `ended with 3 at 10`.
    #[track_caller]
    fn check(policy: &str, lasts: &str, code: &str, expected: &str) {
        let pod = serde_json::from_value(json!({
            "metadata": {"annotations": {ENDS_AFTER: lasts, EXIT_CODE: code}},
            "spec": {"restartPolicy": policy, "containers": []},
        }));
        let at = |second| Timestamp::from_second(second).unwrap();
        let shown = match life(at(25), at(0), &pod.unwrap()) {
            Life::Running {
                since,
                restarts,
                look,
            } => {
                let look = look.map_or("never".to_owned(), |look| format!("in {}", look.as_secs()));
                format!(
                    "running since {}, {restarts} restarts, look {look}",
                    since.as_second()
                )
            }
            Life::Ended { exit_code, at } => format!("ended with {exit_code} at {}", at.as_second()),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn fl8_a_pod_that_is_not_started_again_ends_in_its_time() {
        check("Never", "10s", "0", "ended with 0 at 10");
        check("Never", "10s", "3", "ended with 3 at 10");
        check("OnFailure", "10s", "0", "ended with 0 at 10");
        check("Never", "1m", "3", "running since 0, 0 restarts, look in 35");
    }

    #[test]
    fn fl8_a_pod_that_is_started_again_counts_its_restarts() {
        check("Always", "10s", "0", "running since 20, 2 restarts, look in 5");
        check("OnFailure", "10s", "1", "running since 20, 2 restarts, look in 5");
    }

    #[test]
    fn a_pod_that_says_nothing_sensible_runs_for_ever() {
        check("Never", "soon", "0", "running since 0, 0 restarts, look never");
        check("Never", "0s", "0", "running since 0, 0 restarts, look never");
    }
}
