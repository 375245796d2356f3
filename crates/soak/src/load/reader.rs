//! A user who only reads. Its latency shows what the faults and the load of other users do to everyone else.

use std::time::Duration;

use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::Request;

use crate::soak::{BOB, Soak, count};

const PAUSE: Duration = Duration::from_millis(20);

/// What clients such as kubectl read.
const PATHS: [&str; 5] = [
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/soak-0/configmaps?limit=10",
    "/apis",
    "/api/v1/namespaces/kube-system/configmaps?limit=500",
    "/version",
];

/// Reads until stopped. A request counts if the server was expected to be up at its start and at its end; of several
/// failures in a row, the first is reported.
pub(crate) fn run(soak: &Soak<'_>) {
    let mut session = soak.session(BOB);
    let mut has_failed = false;
    for path in PATHS.iter().cycle() {
        if soak.control.is_stopped() {
            return;
        }
        let was_up = soak.is_up();
        let started = now();
        count(&soak.metrics.requests);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let response = session.send(&Request::new("GET", path).header("Accept", table));
        if was_up && soak.is_up() {
            soak.metrics.record_latency(started.elapsed());
            let failure = match response {
                Ok(response) if response.status == 200 => None,
                Ok(response) => Some(response.to_text()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(failure) = failure.as_ref().filter(|_| !has_failed) {
                soak.violation(format!("GET {path}: {failure}"));
            }
            has_failed = failure.is_some();
        }
        sleep(PAUSE);
    }
}
