//! Health checks: the response is `ok`, or a line for each check with its result.
//!
//! The format is that of controller-runtime's `pkg/healthz`: `?verbose` lists the checks even if all pass,
//! `?exclude=NAME` skips a check, and `/healthz/NAME` runs one of them.

use crate::manager::Check;

/// The checks of one endpoint.
#[derive(Clone, Default)]
pub(super) struct Checks(pub(super) Vec<(&'static str, Check)>);

/// The response to a probe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckResponse {
    Healthy(String),
    Unhealthy(String),
    /// There is no such check.
    NotFound,
}

impl Checks {
    /// Runs all checks but those that the query excludes. `name` is that of the endpoint.
    pub(super) fn run_all(&self, name: &str, query: &str) -> CheckResponse {
        let excluded: Vec<&str> = values(query, "exclude").collect();
        let (mut lines, mut is_healthy) = (String::new(), true);
        if self.0.is_empty() {
            lines.push_str("[+]ping ok\n");
        }
        for (check, run) in &self.0 {
            if excluded.contains(check) {
                lines.push_str(&format!("[+]{check} excluded: ok\n"));
                continue;
            }
            match run() {
                Ok(()) => lines.push_str(&format!("[+]{check} ok\n")),
                Err(reason) => {
                    tracing::info!(check, reason, "{name} check failed");
                    is_healthy = false;
                    lines.push_str(&format!("[-]{check} failed: reason withheld\n"));
                }
            }
        }
        let known = |excluded: &&str| self.0.iter().any(|(check, _)| check == excluded);
        for unknown in excluded.iter().filter(|excluded| !known(excluded)) {
            lines.push_str(&format!(
                "warn: some health checks cannot be excluded: no matches for {unknown}\n"
            ));
        }
        match is_healthy {
            false => CheckResponse::Unhealthy(format!("{lines}{name} check failed\n")),
            true if values(query, "verbose").next().is_some() => {
                CheckResponse::Healthy(format!("{lines}{name} check passed\n"))
            }
            true => CheckResponse::Healthy("ok".to_owned()),
        }
    }

    /// Runs one check. Its response has the reason of a failure.
    pub(super) fn run_one(&self, check: &str) -> CheckResponse {
        match self.0.iter().find(|(own, _)| *own == check) {
            None if check == "ping" && self.0.is_empty() => CheckResponse::Healthy("ok".to_owned()),
            None => CheckResponse::NotFound,
            Some((_, run)) => match run() {
                Ok(()) => CheckResponse::Healthy("ok".to_owned()),
                Err(reason) => CheckResponse::Unhealthy(format!("internal server error: {reason}\n")),
            },
        }
    }
}

/// The values of a query parameter, empty if it has none. Checks have plain names, so nothing is unescaped.
fn values<'q>(query: &'q str, name: &str) -> impl Iterator<Item = &'q str> {
    let pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.filter_map(move |(own, value)| (own == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn checks() -> Checks {
        let well: Check = Arc::new(|| Ok(()));
        let unwell: Check = Arc::new(|| Err("out of order".to_owned()));
        Checks(vec![("caches", well), ("disk", unwell)])
    }

    fn healthy(text: &str) -> CheckResponse {
        CheckResponse::Healthy(text.to_owned())
    }

    fn unhealthy(text: &str) -> CheckResponse {
        CheckResponse::Unhealthy(text.to_owned())
    }

    #[test]
    fn one_failed_check_fails_all_and_is_named_without_its_reason() {
        let expected = "[+]caches ok\n[-]disk failed: reason withheld\nreadyz check failed\n";
        assert_eq!(checks().run_all("readyz", ""), unhealthy(expected));
    }

    #[test]
    fn a_check_can_be_excluded() {
        assert_eq!(checks().run_all("readyz", "exclude=disk"), healthy("ok"));
        let expected = "[+]caches ok\n[+]disk excluded: ok\nreadyz check passed\n";
        assert_eq!(
            checks().run_all("readyz", "exclude=disk&verbose"),
            healthy(expected)
        );
        let expected = "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for x\nhealthz check passed\n";
        assert_eq!(
            Checks::default().run_all("healthz", "verbose=1&exclude=x"),
            healthy(expected)
        );
    }

    #[test]
    fn a_single_check_has_the_reason_of_its_failure() {
        assert_eq!(checks().run_one("caches"), healthy("ok"));
        assert_eq!(
            checks().run_one("disk"),
            unhealthy("internal server error: out of order\n")
        );
        assert_eq!(checks().run_one("moon"), CheckResponse::NotFound);
        assert_eq!(Checks::default().run_one("ping"), healthy("ok"));
    }
}
