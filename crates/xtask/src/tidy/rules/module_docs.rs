//! Every file begins with a module doc: what it is for.

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree.rust().filter(|source| source.inside().starts_with("src/")) {
        if !source.text.starts_with("//!") {
            report.violation_of(
                &format!("{}:1", source.path),
                "no module doc: open with `//!` and what the file is for",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn a_file_without_a_module_doc_is_found() {
        planted::check(
            check,
            &[("crates/a/src/lib.rs", "// A.\nmod b;\n")],
            &["crates/a/src/lib.rs:1"],
        );
    }

    #[test]
    fn a_module_doc_passes_and_tests_outside_need_none() {
        planted::check(
            check,
            &[
                ("crates/a/src/lib.rs", "//! A.\n"),
                ("crates/a/tests/b.rs", "fn f() {}\n"),
            ],
            &[],
        );
    }
}
