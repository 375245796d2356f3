//! Health endpoints: `/livez`, `/readyz`, `/healthz`, and a path per check.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::{Response, StatusCode};

use crate::body::Body;
use crate::metrics::TextEncoder;
use crate::request::query::Query;
use crate::respond;

/// A health check. It must only look at memory: it runs often, and for anonymous clients.
pub struct Check {
    name: Cow<'static, str>,
    /// Whether a failure means the process is broken, rather than not ready yet.
    live: bool,
    probe: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Its results by endpoint, in the order of [`HealthEndpoint::ALL`].
    results: [Results; 3],
    /// Whether it failed when an endpoint last ran it. Only a change is logged: anonymous clients may request an endpoint as
    /// often as they like.
    is_failing: AtomicBool,
}

/// The results of a check at one endpoint, for `/metrics/slis`.
#[derive(Debug, Default)]
struct Results {
    successes: AtomicU64,
    errors: AtomicU64,
    is_passing: AtomicBool,
}

/// A health endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HealthEndpoint {
    Livez,
    Readyz,
    Healthz,
}

// === impl Check ===

impl Check {
    /// A check of the process itself, for `/livez` and `/readyz`.
    pub fn live(
        name: impl Into<Cow<'static, str>>,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            live: true,
            probe: Box::new(probe),
            results: Default::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// A check for `/readyz` only.
    pub fn ready(
        name: impl Into<Cow<'static, str>>,
        probe: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            live: false,
            probe: Box::new(probe),
            results: Default::default(),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Runs the check for an endpoint, counts the result and logs it if it has changed.
    fn run(&self, endpoint: HealthEndpoint) -> Result<(), String> {
        let outcome = (self.probe)();
        let results = &self.results[endpoint as usize];
        let counter = match outcome {
            Ok(()) => &results.successes,
            Err(_) => &results.errors,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        results.is_passing.store(outcome.is_ok(), Ordering::Relaxed);
        if self.has_changed(&outcome) {
            match &outcome {
                Ok(()) => tracing::info!(check = %self.name, "health check passes again"),
                Err(reason) => tracing::warn!(check = %self.name, reason, "health check failed"),
            }
        }
        outcome
    }

    /// Whether the check began to fail, or to pass again.
    fn has_changed(&self, outcome: &Result<(), String>) -> bool {
        let fails = outcome.is_err();
        self.is_failing.swap(fails, Ordering::Relaxed) != fails
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("live", &self.live)
            .finish_non_exhaustive()
    }
}

// === impl HealthEndpoint ===

impl HealthEndpoint {
    const ALL: [Self; 3] = [Self::Livez, Self::Readyz, Self::Healthz];

    fn name(self) -> &'static str {
        match self {
            Self::Livez => "livez",
            Self::Readyz => "readyz",
            Self::Healthz => "healthz",
        }
    }

    fn includes(self, check: &Check) -> bool {
        check.live || self == Self::Readyz
    }
}

/// Parses a health path into the endpoint and the check it may name.
pub(crate) fn parse(path: &str) -> Option<(HealthEndpoint, &str)> {
    let path = path.strip_prefix('/')?;
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let endpoint = match first {
        "livez" => HealthEndpoint::Livez,
        "readyz" => HealthEndpoint::Readyz,
        "healthz" => HealthEndpoint::Healthz,
        _ => return None,
    };
    Some((endpoint, rest.trim_end_matches('/')))
}

/// All health paths.
pub(crate) fn paths(checks: &[Check]) -> Vec<String> {
    let endpoints = [
        HealthEndpoint::Healthz,
        HealthEndpoint::Livez,
        HealthEndpoint::Readyz,
    ];
    let of = |endpoint: HealthEndpoint| {
        let named = checks.iter().filter(move |check| endpoint.includes(check));
        let named = named.map(move |check| format!("/{}/{}", endpoint.name(), check.name));
        std::iter::once(format!("/{}", endpoint.name())).chain(named)
    };
    endpoints.into_iter().flat_map(of).collect()
}

/// Handles a health request.
pub(crate) fn handle(
    checks: &[Check],
    endpoint: HealthEndpoint,
    only: &str,
    query: &Query<'_>,
) -> Response<Body> {
    let mut included = checks.iter().filter(|check| endpoint.includes(check));
    if !only.is_empty() {
        return match included.find(|check| check.name == only) {
            Some(check) => run_one(check),
            None => respond::page_not_found(),
        };
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let (report, healthy) = report(endpoint, included, &excluded);
    match (healthy, query.flag("verbose").unwrap_or_default()) {
        (true, false) => respond::text(StatusCode::OK, "ok"),
        (true, true) => respond::text(
            StatusCode::OK,
            format!("{report}{} check passed\n", endpoint.name()),
        ),
        (false, _) => {
            let text = format!("{report}{} check failed\n", endpoint.name());
            respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

fn run_one(check: &Check) -> Response<Body> {
    match (check.probe)() {
        Ok(()) => respond::text(StatusCode::OK, "ok"),
        Err(reason) => respond::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {reason}\n"),
        ),
    }
}

/// One line per check. The reason of a failure is logged, not returned to the client.
fn report<'a>(
    endpoint: HealthEndpoint,
    checks: impl Iterator<Item = &'a Check>,
    excluded: &[&str],
) -> (String, bool) {
    let mut lines = String::new();
    let mut healthy = true;
    for check in checks {
        let line = if excluded.contains(&&*check.name) {
            writeln!(lines, "[+]{} excluded: ok", check.name)
        } else if check.run(endpoint).is_err() {
            healthy = false;
            writeln!(lines, "[-]{} failed: reason withheld", check.name)
        } else {
            writeln!(lines, "[+]{} ok", check.name)
        };
        line.expect("writing to a string cannot fail");
    }
    (lines, healthy)
}

/// Writes the results of all checks so far: the metrics of `/metrics/slis`.
pub(crate) fn write_slis(checks: &[Check], text: &mut TextEncoder) {
    let results = || {
        let all = checks.iter().flat_map(|check| {
            let endpoints = HealthEndpoint::ALL.into_iter();
            endpoints.map(move |endpoint| (&*check.name, endpoint.name(), &check.results[endpoint as usize]))
        });
        all.map(|(name, endpoint, results)| {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            (
                name,
                endpoint,
                results,
                [read(&results.successes), read(&results.errors)],
            )
        })
        .filter(|(_, _, _, counts)| counts.iter().any(|count| *count > 0))
    };
    const LAST: &str = "kubernetes_healthcheck";
    text.family(
        LAST,
        "gauge",
        "The last result of a health check: 1 if it passed.",
    );
    for (name, endpoint, results, _) in results() {
        let is_passing = results.is_passing.load(Ordering::Relaxed);
        text.sample(LAST, &[("name", name), ("type", endpoint)], u8::from(is_passing));
    }
    const TOTAL: &str = "kubernetes_healthchecks_total";
    text.family(TOTAL, "counter", "Health checks that were run, by their result.");
    for (name, endpoint, _, counts) in results() {
        for (status, count) in ["success", "error"].into_iter().zip(counts) {
            if count > 0 {
                let labels = [("name", name), ("status", status), ("type", endpoint)];
                text.sample(TOTAL, &labels, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_checks_are_counted_by_endpoint() {
        let checks = checks(false);
        for (endpoint, only) in [
            (HealthEndpoint::Readyz, ""),
            (HealthEndpoint::Readyz, ""),
            (HealthEndpoint::Livez, ""),
            (HealthEndpoint::Livez, "ping"),
        ] {
            handle(&checks, endpoint, only, &Query::parse(None));
        }
        let mut text = TextEncoder::default();
        write_slis(&checks, &mut text);
        let page = text.into_string();
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"kubernetes_healthcheck{name="ping",type="livez"} 1"#,
                r#"kubernetes_healthcheck{name="ping",type="readyz"} 1"#,
                r#"kubernetes_healthcheck{name="informer-sync",type="readyz"} 0"#,
                r#"kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1"#,
                r#"kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2"#,
                r#"kubernetes_healthchecks_total{name="informer-sync",status="error",type="readyz"} 2"#,
            ]
        );
    }

    #[test]
    fn a_check_is_logged_when_it_begins_to_fail_and_when_it_passes_again() {
        let check = Check::ready("etcd", || Ok(()));
        let fail = || Err("no leader".to_owned());
        let outcomes = [Ok(()), fail(), fail(), fail(), Ok(()), Ok(()), fail()];
        let logged = outcomes.map(|outcome| check.has_changed(&outcome));
        assert_eq!(logged, [false, true, false, false, true, false, true]);
    }

    fn checks(synced: bool) -> Vec<Check> {
        vec![
            Check::live("ping", || Ok(())),
            Check::ready("informer-sync", move || {
                if synced { Ok(()) } else { Err("pods".to_owned()) }
            }),
        ]
    }

    #[track_caller]
    fn check(synced: bool, url: &str, code: u16, text: &str) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let (endpoint, only) = parse(path).unwrap();
        let response = handle(&checks(synced), endpoint, only, &Query::parse(Some(query)));
        assert_eq!(response.status(), code, "{url}");
        let Body::Whole(bytes) = response.into_body() else {
            panic!("no text for {url}")
        };
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), text, "{url}");
    }

    #[test]
    fn a_healthy_server_is_ok() {
        check(true, "/livez", 200, "ok");
        check(true, "/readyz/informer-sync", 200, "ok");
        check(true, "/livez?exclude=bogus", 200, "ok");
    }

    #[test]
    fn verbose_lists_the_checks() {
        check(
            true,
            "/readyz?verbose",
            200,
            "[+]ping ok\n[+]informer-sync ok\nreadyz check passed\n",
        );
        check(true, "/livez?verbose", 200, "[+]ping ok\nlivez check passed\n");
        check(
            true,
            "/readyz?verbose&exclude=ping",
            200,
            "[+]ping excluded: ok\n[+]informer-sync ok\nreadyz check passed\n",
        );
    }

    #[test]
    fn a_server_that_is_not_ready_is_alive() {
        let failed = "[+]ping ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n";
        check(false, "/readyz", 500, failed);
        check(false, "/livez", 200, "ok");
    }

    #[test]
    fn an_unknown_check_is_not_found() {
        check(true, "/healthz/bogus", 404, "404 page not found\n");
        check(true, "/livez/informer-sync", 404, "404 page not found\n");
    }

    #[test]
    fn other_paths_are_no_health_paths() {
        assert_eq!(parse("/livezz"), None);
        assert_eq!(parse("/version"), None);
    }
}
