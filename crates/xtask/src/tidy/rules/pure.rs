//! `api`, `schema`, `values`, `strategy` and `kinds` start nothing and wait for nothing.

use super::{Exception, is_excepted};
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const PURE: &[&str] = &["api", "kinds", "schema", "strategy", "values"];

/// What shows that a file waits or starts something.
const WORDS: &[&str] = &[".await", "async", "tokio", "std::thread", "spawn"];

const EXCEPTIONS: &[Exception] = &[
    Exception::new(
        "crates/api/src/clock.rs",
        "the clock is the one thing here that sleeps, for those above",
    ),
    Exception::new(
        "crates/api/src/off_worker.rs",
        "runs a computation on its own thread, and starts no task",
    ),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let pure = tree
        .rust()
        .filter(|source| source.krate().is_some_and(|name| PURE.contains(&name)));
    for source in pure.filter(|source| !is_excepted(EXCEPTIONS, &source.path)) {
        for (offset, word) in source.production_any(WORDS) {
            report.violation(
                source,
                offset,
                format!("`{word}` in a pure crate: take values, return values"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn waiting_in_a_pure_crate_is_found() {
        let files = [
            ("crates/kinds/src/lib.rs", "fn a() {\n x.await;\n}\n"),
            ("crates/api/src/call.rs", "async fn a() {}"),
        ];
        planted::check(
            check,
            &files,
            &["crates/api/src/call.rs:1", "crates/kinds/src/lib.rs:2"],
        );
    }

    #[test]
    fn a_runtime_or_a_thread_in_a_pure_crate_is_found() {
        let files = [(
            "crates/schema/src/lib.rs",
            "use tokio::sync::Mutex;\nuse std::thread;\n",
        )];
        planted::check(
            check,
            &files,
            &["crates/schema/src/lib.rs:1", "crates/schema/src/lib.rs:2"],
        );
    }

    #[test]
    fn the_clock_tests_and_other_crates_may_wait() {
        let files = [
            (
                "crates/api/src/clock.rs",
                "async fn sleep() { tokio::time::sleep(x).await }",
            ),
            (
                "crates/api/src/key.rs",
                "#[cfg(test)]\nmod tests { async fn a() {} }\n",
            ),
            ("crates/cache/src/lib.rs", "async fn a() {}"),
        ];
        planted::check(check, &files, &[]);
    }
}
