//! All time comes from the one clock that is handed in.

use super::{Exception, is_excepted};
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const NOW: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "Utc::now",
    "now_utc",
];

const EXCEPTIONS: &[Exception] = &[
    Exception::new("crates/api/src/clock.rs", "this is the clock"),
    Exception::new("crates/bench/", "measures the machine's own time"),
    Exception::new(
        "crates/conformance/src/time.rs",
        "a client of real servers, which runs in real time",
    ),
    Exception::new(
        "crates/store/src/metrics.rs",
        "measures how long the disk takes to sync",
    ),
    Exception::new("crates/xtask/", "says how long a step took"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .rust()
        .filter(|source| !is_excepted(EXCEPTIONS, &source.path))
    {
        for (offset, word) in source.production_any(NOW) {
            report.violation(
                source,
                offset,
                format!("`{word}`: ask the clock that was handed in"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn the_machines_time_is_found() {
        let files = [(
            "crates/runtime/src/a.rs",
            "fn f() {\n    let t = std::time::Instant::now();\n}\n",
        )];
        planted::check(check, &files, &["crates/runtime/src/a.rs:2"]);
    }

    #[test]
    fn the_clock_and_tests_may_read_it() {
        let files = [
            ("crates/api/src/clock.rs", "fn f() { SystemTime::now(); }\n"),
            (
                "crates/runtime/src/a.rs",
                "fn f() { clock.now(); }\n#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }\n",
            ),
        ];
        planted::check(check, &files, &[]);
    }
}
