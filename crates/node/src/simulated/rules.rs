//! [`Rules`]: how a simulated pod behaves, by the annotations of the pod: pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use setpoint_api::Quantity;

use super::usage::quantity;

/// After how long the containers exit, such as `5s` or `2m`; without it they run for ever.
pub(crate) const ENDS_AFTER: &str = "simulated.setpoint.dev/ends-after";
/// Their exit code; 0 by default.
pub(super) const EXIT_CODE: &str = "simulated.setpoint.dev/exit-code";
/// How long the sandbox takes to start, besides the time of all pods.
pub(super) const STARTS_AFTER: &str = "simulated.setpoint.dev/starts-after";
/// After how long a running container is ready; at once by default.
pub(crate) const READY_AFTER: &str = "simulated.setpoint.dev/ready-after";
/// Up to how much longer than specified starting and running take, different for each pod.
pub(super) const JITTER: &str = "simulated.setpoint.dev/jitter";
/// The text with which containers cannot be created.
pub(super) const CREATE_ERROR: &str = "simulated.setpoint.dev/create-error";
/// The text with which containers cannot be started.
pub(super) const START_ERROR: &str = "simulated.setpoint.dev/start-error";
/// The log of each container.
pub(crate) const LOG: &str = "simulated.setpoint.dev/log";
/// The exit code of commands of probes and lifecycle hooks; 0 by default.
pub(super) const EXEC_EXIT_CODE: &str = "simulated.setpoint.dev/exec-exit-code";
/// The CPU that each container uses, such as `250m`; half of its request by default.
pub(super) const CPU_USAGE: &str = "simulated.setpoint.dev/cpu-usage";
/// The memory that each container uses, such as `64Mi`; half of its request by default.
pub(super) const MEMORY_USAGE: &str = "simulated.setpoint.dev/memory-usage";
/// The value of [`ENDS_AFTER`] for containers that run for ever although the pod has a limit.
pub(crate) const NEVER: &str = "never";

/// How a simulated pod or container behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) starts_after: Duration,
    pub(super) ends_after: Option<Duration>,
    pub(super) ready_after: Option<Duration>,
    pub(super) exit_code: i32,
    pub(super) create_error: Option<String>,
    pub(super) start_error: Option<String>,
    pub(super) log: Option<String>,
    pub(super) exec_exit_code: i32,
    pub(super) cpu_usage: Option<Quantity>,
    pub(super) memory_usage: Option<Quantity>,
}

impl Rules {
    /// The rules of a pod; `seed` differs from pod to pod.
    pub(super) fn of_pod(annotations: &BTreeMap<String, String>, seed: &str) -> Self {
        let text = |name: &str| annotations.get(name).cloned();
        let number = |name: &str| text(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let jitter = text(JITTER).and_then(|text| duration(&text)).unwrap_or_default();
        let jitter = jitter.mul_f64(fraction(seed));
        let starts_after = text(STARTS_AFTER).and_then(|text| duration(&text));
        let ends_after = text(ENDS_AFTER).and_then(|text| duration(&text));
        Self {
            starts_after: starts_after.map_or(Duration::ZERO, |after| after + jitter),
            // Containers that end at once would be restarted without end.
            ends_after: ends_after
                .filter(|after| *after >= Duration::from_millis(1))
                .map(|after| after + jitter),
            ready_after: text(READY_AFTER)
                .and_then(|text| duration(&text))
                .map(|after| after + jitter),
            exit_code: number(EXIT_CODE),
            create_error: text(CREATE_ERROR),
            start_error: text(START_ERROR),
            log: text(LOG),
            exec_exit_code: number(EXEC_EXIT_CODE),
            cpu_usage: text(CPU_USAGE).and_then(|text| quantity(&text)),
            memory_usage: text(MEMORY_USAGE).and_then(|text| quantity(&text)),
        }
    }

    /// After how long a container of the pod exits, and its exit code. Its own annotation has precedence: init
    /// containers complete, and sidecars run on.
    pub(super) fn end(&self, container: &BTreeMap<String, String>) -> Option<(Duration, i32)> {
        match container.get(ENDS_AFTER).map(String::as_str) {
            Some(NEVER) => None,
            Some(own) => Some((duration(own)?, 0)),
            None => Some((self.ends_after?, self.exit_code)),
        }
    }
}

pub(super) fn duration(text: &str) -> Option<Duration> {
    Duration::try_from(text.parse::<SignedDuration>().ok()?).ok()
}

/// A fraction between 0 and 1 that is the same for the same seed, so that a restarted agent computes the same times.
pub(super) fn fraction(seed: &str) -> f64 {
    let hash = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    f64::from(u32::try_from(hash >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(pairs: &[(&str, &str)]) -> Rules {
        let annotations = pairs.iter().map(|(name, value)| {
            let name = format!("simulated.setpoint.dev/{name}");
            (name, (*value).to_owned())
        });
        Rules::of_pod(&annotations.collect(), "uid")
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], container: Option<&str>, expected: Option<(u64, i32)>) {
        let own = container.map(|after| (ENDS_AFTER.to_owned(), after.to_owned()));
        let end = rules(pairs).end(&own.into_iter().collect());
        assert_eq!(end.map(|(after, code)| (after.as_secs(), code)), expected);
    }

    #[test]
    fn fl8_containers_exit_in_their_time_with_their_code() {
        check(&[("ends-after", "10s"), ("exit-code", "3")], None, Some((10, 3)));
        check(&[("ends-after", "1m")], None, Some((60, 0)));
        check(&[], None, None);
    }

    #[test]
    fn a_pod_with_an_invalid_annotation_runs_for_ever() {
        check(&[("ends-after", "soon")], None, None);
        check(&[("ends-after", "0s")], None, None);
    }

    #[test]
    fn an_init_container_completes_and_a_sidecar_runs_on() {
        check(
            &[("ends-after", "10s"), ("exit-code", "3")],
            Some("0s"),
            Some((0, 0)),
        );
        check(&[("ends-after", "10s")], Some(NEVER), None);
    }

    #[test]
    fn jitter_differs_by_pod_and_not_by_time() {
        let pairs = [("starts-after", "10s"), ("jitter", "10s")];
        let once = rules(&pairs).starts_after;
        assert_eq!(rules(&pairs).starts_after, once);
        assert!(
            once > Duration::from_secs(10) && once < Duration::from_secs(20),
            "{once:?}"
        );
    }
}
