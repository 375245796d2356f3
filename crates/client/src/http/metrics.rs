//! Metrics of the requests of a client, with the metric names of client-go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_values::metrics::{Histogram, TextEncoder};

/// The metrics of one client. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// By method and code; a request without a response has the code `<error>`.
    requests: BTreeMap<(String, String), u64>,
    durations: BTreeMap<String, Histogram>,
    /// How long requests were delayed by the rate limit.
    rate_limit_waits: Histogram,
    retries: u64,
}

/// Upper bounds in seconds.
const BOUNDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

impl Metrics {
    /// Records a request and the code of its response, if there was one.
    pub(crate) fn record_request(&self, method: &str, code: Option<u16>, took: Duration) {
        let code = code.map_or("<error>".to_owned(), |code| code.to_string());
        let mut state = self.state.lock();
        *state.requests.entry((method.to_owned(), code)).or_default() += 1;
        state
            .durations
            .entry(method.to_owned())
            .or_insert_with(|| Histogram::new(&BOUNDS))
            .observe(took.as_secs_f64());
    }

    pub(crate) fn record_rate_limit_wait(&self, waited: Duration) {
        self.state.lock().rate_limit_waits.observe(waited.as_secs_f64());
    }

    pub(crate) fn record_retry(&self) {
        self.state.lock().retries += 1;
    }

    /// How many requests have been made.
    pub fn requests(&self) -> u64 {
        self.state.lock().requests.values().sum()
    }

    /// All metrics in the Prometheus text format, for the server at `host`.
    pub fn to_text(&self, host: &str) -> String {
        let state = self.state.lock();
        let mut text = TextEncoder::default();
        text.family(
            "rest_client_requests_total",
            "counter",
            "Finished requests, by status code, method and host.",
        );
        for ((method, code), count) in &state.requests {
            let labels = [("code", code.as_str()), ("host", host), ("method", method)];
            text.sample("rest_client_requests_total", &labels, count);
        }
        text.family(
            "rest_client_request_retries_total",
            "counter",
            "Requests that were sent again.",
        );
        text.sample(
            "rest_client_request_retries_total",
            &[("host", host)],
            state.retries,
        );
        text.family(
            "rest_client_request_duration_seconds",
            "histogram",
            "Time until the response began, by verb and host.",
        );
        for (verb, durations) in &state.durations {
            let labels = [("host", host), ("verb", verb)];
            text.histogram(
                "rest_client_request_duration_seconds",
                &labels,
                &durations.buckets(),
            );
        }
        let waits = "rest_client_rate_limiter_duration_seconds";
        text.family(
            waits,
            "histogram",
            "Time that requests wait for the rate limiter.",
        );
        text.histogram(waits, &[("host", host)], &state.rate_limit_waits.buckets());
        text.into_string()
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            requests: BTreeMap::new(),
            durations: BTreeMap::new(),
            rate_limit_waits: Histogram::new(&BOUNDS),
            retries: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_under_the_names_of_client_go() {
        let metrics = Metrics::default();
        metrics.record_request("GET", Some(200), Duration::from_millis(20));
        metrics.record_request("GET", Some(200), Duration::from_secs(100));
        metrics.record_request("POST", None, Duration::from_secs(1));
        metrics.record_rate_limit_wait(Duration::ZERO);
        metrics.record_retry();
        assert_eq!(metrics.requests(), 3);
        let text = metrics.to_text("a:1");
        let expected = [
            r#"rest_client_requests_total{code="200",host="a:1",method="GET"} 2"#,
            r#"rest_client_requests_total{code="<error>",host="a:1",method="POST"} 1"#,
            r#"rest_client_request_retries_total{host="a:1"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{host="a:1",verb="GET",le="0.025"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{host="a:1",verb="GET",le="60"} 1"#,
            r#"rest_client_request_duration_seconds_count{host="a:1",verb="GET"} 2"#,
            r#"rest_client_rate_limiter_duration_seconds_count{host="a:1"} 1"#,
        ];
        for line in expected {
            assert!(text.lines().any(|own| own == line), "{line} is missing in {text}");
        }
    }
}
