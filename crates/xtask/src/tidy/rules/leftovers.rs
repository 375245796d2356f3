//! Nothing half-done is committed: no placeholder, no ignored test, and a postponed task names its condition.

use crate::tidy::report::Report;
use crate::tidy::source::{Source, find_word};
use crate::tidy::tree::Tree;

/// In code, tests included.
const CODE: &[&str] = &["todo!", "unimplemented!", "dbg!", "#[ignore"];
/// In comments and in prose.
const MARKS: &[&str] = &["FIXME", concat!("X", "XX")];
const PUT_OFF: &str = "TODO";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in &tree.sources {
        let prose = if source.is_rust() {
            &source.comments
        } else {
            &source.text
        };
        if source.is_rust() {
            check_code(source, report);
        }
        if source.is_rust() || is_written_by_hand(&source.path) {
            check_prose(source, prose, report);
        }
    }
}

fn check_code(source: &Source, report: &mut Report) {
    for word in CODE {
        for offset in find_word(&source.code, word) {
            report.violation(
                source,
                offset,
                format!("`{word}` is left over: finish it or take it out"),
            );
        }
    }
}

fn check_prose(source: &Source, prose: &str, report: &mut Report) {
    for mark in MARKS {
        for offset in find_word(prose, mark) {
            report.violation(
                source,
                offset,
                format!("`{mark}` is left over: repair it or say what must stay true"),
            );
        }
    }
    for offset in find_word(prose, PUT_OFF) {
        if !paragraph(&prose[offset..]).contains("until") {
            report.violation(
                source,
                offset,
                format!("`{PUT_OFF}` without a condition: say until when"),
            );
        }
    }
}

/// The line and the next two: a sentence may be wrapped.
fn paragraph(prose: &str) -> &str {
    let end = prose
        .match_indices('\n')
        .nth(2)
        .map_or(prose.len(), |(offset, _)| offset);
    &prose[..end]
}

/// Data files may hold any letters.
fn is_written_by_hand(path: &str) -> bool {
    path.starts_with(".ci/")
        || [".md", ".toml", ".sh"]
            .iter()
            .any(|ending| path.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::{MARKS, PUT_OFF, check};
    use crate::tidy::planted;

    #[track_caller]
    fn check_text(text: &str, positions: &[&str]) {
        planted::check(check, &[("crates/a/src/b.rs", text)], positions);
    }

    #[test]
    fn a_placeholder_is_found() {
        check_text(
            "fn a() { todo!() }\nfn b() { unimplemented!(\"x\") }\n",
            &["crates/a/src/b.rs:1", "crates/a/src/b.rs:2"],
        );
    }

    #[test]
    fn an_ignored_test_is_found() {
        check_text(
            "#[cfg(test)]\nmod tests {\n    #[test]\n    #[ignore = \"slow\"]\n    fn a() {}\n}\n",
            &["crates/a/src/b.rs:4"],
        );
    }

    #[test]
    fn a_mark_is_found_in_code_and_in_docs() {
        let (rust, docs) = (format!("// {} it\n", MARKS[0]), format!("\n{}\n", MARKS[1]));
        let files = [("crates/a/src/b.rs", rust.as_str()), ("docs/a.md", docs.as_str())];
        planted::check(check, &files, &["crates/a/src/b.rs:1", "docs/a.md:2"]);
    }

    #[test]
    fn what_is_put_off_needs_its_condition() {
        check_text(
            &format!("// {PUT_OFF}: faster.\n\n\n\n// until\n"),
            &["crates/a/src/b.rs:1"],
        );
        check_text(
            &format!("// {PUT_OFF}: scan, until the store\n// has leases.\n"),
            &[],
        );
    }

    #[test]
    fn words_in_strings_pass() {
        check_text(&format!("const A: &str = \"todo!() {PUT_OFF}\";\n"), &[]);
    }
}
