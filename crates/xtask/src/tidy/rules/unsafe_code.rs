//! No `unsafe` outside the crate that exists for it: clippy's `unsafe_code` may be allowed there, and nowhere else.

use super::{Exception, is_excepted};
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

/// The keyword, and the lint that would allow it.
const WORDS: &[&str] = &["unsafe", "allow(unsafe_code"];

const EXCEPTIONS: &[Exception] = &[Exception::new(
    "crates/program-pages/src/lib.rs",
    "madvise is unsafe, and no safe interface has it",
)];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree
        .rust()
        .filter(|source| !is_excepted(EXCEPTIONS, &source.path))
    {
        for (offset, word) in source.production_any(WORDS) {
            report.violation(source, offset, format!("`{word}`: use a safe interface"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn an_unsafe_block_is_found() {
        let files = [("crates/store/src/a.rs", "fn f() {\n    unsafe { g() };\n}\n")];
        planted::check(check, &files, &["crates/store/src/a.rs:2"]);
    }

    #[test]
    fn allowing_the_lint_is_found() {
        let files = [("crates/store/src/lib.rs", "#![allow(unsafe_code)]\n")];
        planted::check(check, &files, &["crates/store/src/lib.rs:1"]);
    }

    #[test]
    fn the_crate_for_it_passes_and_so_do_other_names() {
        let files = [
            (
                "crates/program-pages/src/lib.rs",
                "#![allow(unsafe_code)]\nfn f() { unsafe { g() } }\n",
            ),
            ("crates/store/src/a.rs", "fn f() { unsafe_no_fsync(); }\n"),
        ];
        planted::check(check, &files, &[]);
    }
}
