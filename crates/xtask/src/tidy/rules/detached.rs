//! No detached task: a component keeps its tasks in a `JoinSet` inside its own `run`.

use super::{Exception, is_excepted};
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

/// Calls that start a task or a thread which no owner has to join.
const WORDS: &[&str] = &[
    "tokio::spawn",
    "task::spawn",
    "task::spawn_local",
    "spawn_local",
    "Handle::current",
    "thread::spawn",
    "thread::Builder",
];

const EXCEPTIONS: &[Exception] = &[
    Exception::new(
        "crates/encryption/src/kms/service.rs",
        "its plugin joins it when dropped",
    ),
    Exception::new("crates/bench/", "ends with its process"),
    Exception::new(
        "crates/etcd/src/engine.rs",
        "the engine is a thread, joined when the store is dropped",
    ),
    Exception::new(
        "crates/registry/src/large_requests.rs",
        "a large request is waited for on the thread that it is executed on",
    ),
    Exception::new(
        "crates/store/src/commit/sequencer.rs",
        "the sequencer is a thread, joined when the commit path is dropped",
    ),
    Exception::new(
        "crates/store/src/log/file/segment_allocator.rs",
        "segments are allocated ahead on a thread that dropping joins",
    ),
    Exception::new(
        "crates/store/src/workers.rs",
        "file work runs on threads that dropping the store joins",
    ),
    Exception::new("crates/xtask/", "ends with its process"),
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .rust()
        .filter(|source| !is_excepted(EXCEPTIONS, &source.path))
    {
        for (offset, word) in source.production_any(WORDS) {
            let what = format!("`{word}` starts what nobody waits for: keep it in a `JoinSet` inside `run`");
            report.violation(source, offset, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn a_detached_task_is_found_once() {
        let files = [(
            "crates/runtime/src/a.rs",
            "fn f() {\n    tokio::task::spawn(async {});\n}\n",
        )];
        planted::check(check, &files, &["crates/runtime/src/a.rs:2"]);
    }

    #[test]
    fn a_detached_thread_is_found() {
        let files = [(
            "crates/cache/src/a.rs",
            "use std::thread;\nfn f() { thread::spawn(|| {}); }\n",
        )];
        planted::check(check, &files, &["crates/cache/src/a.rs:2"]);
    }

    #[test]
    fn a_join_set_passes_and_so_does_the_sequencer() {
        let files = [
            ("crates/runtime/src/a.rs", "fn f() { children.spawn(work()); }\n"),
            (
                "crates/store/src/commit/sequencer.rs",
                "fn f() { std::thread::Builder::new(); }\n",
            ),
        ];
        planted::check(check, &files, &[]);
    }
}
