//! Whether all is well, as probes and people ask for it: `ok`, or a line for each check and what came of it.
//!
//! The answers are those of controller-runtime's `pkg/healthz`: `?verbose` shows the lines though all is well,
//! `?exclude=NAME` passes over a check, and `/healthz/NAME` is about one of them.

use crate::manager::Check;

/// Checks that are asked for under one path.
#[derive(Clone, Default)]
pub(super) struct Checks(pub(super) Vec<(&'static str, Check)>);

/// What a probe is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Well(String),
    Unwell(String),
    /// There is no such check.
    Unknown,
}

impl Checks {
    /// All checks but those that the query leaves out. `name` is that of the endpoint.
    pub(super) fn ask(&self, name: &str, query: &str) -> Verdict {
        let excluded: Vec<&str> = values(query, "exclude").collect();
        let (mut lines, mut is_well) = (String::new(), true);
        if self.0.is_empty() {
            lines.push_str("[+]ping ok\n");
        }
        for (check, ask) in &self.0 {
            if excluded.contains(check) {
                lines.push_str(&format!("[+]{check} excluded: ok\n"));
                continue;
            }
            match ask() {
                Ok(()) => lines.push_str(&format!("[+]{check} ok\n")),
                Err(why) => {
                    tracing::info!(check, why, "{name} check failed");
                    is_well = false;
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
        match is_well {
            false => Verdict::Unwell(format!("{lines}{name} check failed\n")),
            true if values(query, "verbose").next().is_some() => {
                Verdict::Well(format!("{lines}{name} check passed\n"))
            }
            true => Verdict::Well("ok".to_owned()),
        }
    }

    /// One check. Whoever asks for it by name is told what is wrong.
    pub(super) fn ask_one(&self, check: &str) -> Verdict {
        match self.0.iter().find(|(own, _)| *own == check) {
            None if check == "ping" && self.0.is_empty() => Verdict::Well("ok".to_owned()),
            None => Verdict::Unknown,
            Some((_, ask)) => match ask() {
                Ok(()) => Verdict::Well("ok".to_owned()),
                Err(why) => Verdict::Unwell(format!("internal server error: {why}\n")),
            },
        }
    }
}

/// The values of a parameter, the empty one if it stands there by itself. Checks have plain names, so nothing is escaped.
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

    fn well(text: &str) -> Verdict {
        Verdict::Well(text.to_owned())
    }

    fn unwell(text: &str) -> Verdict {
        Verdict::Unwell(text.to_owned())
    }

    #[test]
    fn one_that_fails_fails_all_and_is_named_without_its_reason() {
        let expected = "[+]caches ok\n[-]disk failed: reason withheld\nreadyz check failed\n";
        assert_eq!(checks().ask("readyz", ""), unwell(expected));
    }

    #[test]
    fn a_check_can_be_passed_over() {
        assert_eq!(checks().ask("readyz", "exclude=disk"), well("ok"));
        let expected = "[+]caches ok\n[+]disk excluded: ok\nreadyz check passed\n";
        assert_eq!(checks().ask("readyz", "exclude=disk&verbose"), well(expected));
        let expected = "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for x\nhealthz check passed\n";
        assert_eq!(
            Checks::default().ask("healthz", "verbose=1&exclude=x"),
            well(expected)
        );
    }

    #[test]
    fn one_check_says_what_is_wrong() {
        assert_eq!(checks().ask_one("caches"), well("ok"));
        assert_eq!(
            checks().ask_one("disk"),
            unwell("internal server error: out of order\n")
        );
        assert_eq!(checks().ask_one("moon"), Verdict::Unknown);
        assert_eq!(Checks::default().ask_one("ping"), well("ok"));
    }
}
