//! Pages name code that exists: every path in backticks is a file or a folder, and `path::item` an item of that file.

use crate::tidy::report::Report;
use crate::tidy::source::{Source, find_word};
use crate::tidy::tree::Tree;

/// Folders of the repository that a path in a page begins with.
const TOP: &[&str] = &["crates/", "docs/", "e2e/", "examples/", "reference/", ".ci/"];

/// The page whose tables lead through the code function by function.
const FLOW: &str = "docs/flow.md";

/// Keywords that introduce an item.
const KEYWORDS: &[&str] = &[
    "fn",
    "struct",
    "enum",
    "trait",
    "type",
    "const",
    "static",
    "mod",
    "macro_rules!",
];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let pages = tree.sources.iter().filter(|source| source.path.ends_with(".md"));
    for page in pages {
        for (offset, path) in quoted_paths(&page.text) {
            if let Err(problem) = find(tree, path) {
                report.violation(page, offset, format!("`{path}`: {problem}"));
            }
        }
        if page.path == FLOW {
            check_rows(page, report);
        }
    }
}

/// Each row of a flow table names the function in which its step happens.
fn check_rows(page: &Source, report: &mut Report) {
    let mut start = 0;
    for line in page.text.split_inclusive('\n') {
        let is_row = line.starts_with("| ") && line[2..].starts_with(|first: char| first.is_ascii_digit());
        let names_function = quoted_paths(line).any(|(_, path)| path.contains("::"));
        if is_row && !names_function {
            report.violation(
                page,
                start,
                "a step without its function: name it as `crates/...rs::function`",
            );
        }
        start += line.len();
    }
}

fn find(tree: &Tree, path: &str) -> Result<(), &'static str> {
    let (file, item) = match path.split_once("::") {
        Some((file, item)) => (file, Some(item)),
        None => (path, None),
    };
    // A pattern such as `crates/kinds/src/<group>/` stands for the folder before its first variable component.
    let fixed = file.find(['<', '*', '{']).map_or(file, |at| &file[..at]);
    let fixed = match fixed.len() == file.len() {
        true => fixed.trim_end_matches('/'),
        false => fixed.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let Some(item) = item else {
        let exists = tree.find(fixed).is_some() || tree.folders.iter().any(|folder| folder == fixed);
        return if exists {
            Ok(())
        } else {
            Err("no such file or folder")
        };
    };
    let source = tree.find(fixed).ok_or("no such file")?;
    let name = item.rsplit("::").next().unwrap_or(item).trim_end_matches("()");
    if declares(&source.code, name) {
        Ok(())
    } else {
        Err("the file has no item of that name")
    }
}

fn declares(code: &str, name: &str) -> bool {
    find_word(code, name).any(|offset| {
        let before = code[..offset].trim_end();
        KEYWORDS.iter().any(|keyword| before.ends_with(keyword))
    })
}

/// Paths of the repository in backticks, with their offsets.
fn quoted_paths(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    let pieces = text.split('`').enumerate().map(move |(n, piece)| {
        let at = offset;
        offset += piece.len() + 1;
        (n, at, piece)
    });
    pieces
        .filter(|(n, _, piece)| {
            n % 2 == 1 && TOP.iter().any(|top| piece.starts_with(top)) && !piece.contains(' ')
        })
        .map(|(_, at, piece)| (at, piece))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    const CODE: (&str, &str) = (
        "crates/a/src/b.rs",
        "pub(crate) fn run() {}\nstruct Queue;\nimpl Queue { fn add() {} }\n",
    );

    #[track_caller]
    fn check_page(path: &str, text: &str, lines: &[&str]) {
        planted::check(check, &[CODE, (path, text)], lines);
    }

    #[test]
    fn a_path_that_exists_passes() {
        check_page(
            "docs/a.md",
            "`crates/a/src/b.rs`, `crates/a/`, `crates/a/src/<kind>.rs`, `crates/a/src/b.rs::Queue::add`",
            &[],
        );
    }

    #[test]
    fn a_file_that_is_gone_is_found() {
        check_page(
            "ARCHITECTURE.md",
            "\nsee `crates/a/src/c.rs`",
            &["ARCHITECTURE.md:2"],
        );
        check_page(
            "ARCHITECTURE.md",
            "\nsee `crates/z/src/<kind>.rs`",
            &["ARCHITECTURE.md:2"],
        );
    }

    #[test]
    fn a_function_that_is_gone_is_found() {
        check_page("docs/a.md", "`crates/a/src/b.rs::walk`", &["docs/a.md:1"]);
    }

    #[test]
    fn a_use_of_a_name_is_not_its_item() {
        let code = ("crates/a/src/c.rs", "fn f() { run(); }\n");
        planted::check(
            check,
            &[code, ("docs/a.md", "`crates/a/src/c.rs::run`")],
            &["docs/a.md:1"],
        );
    }

    #[test]
    fn a_step_of_the_flow_names_its_function() {
        check_page(
            "docs/flow.md",
            "| # | where |\n|---|---|\n| 1 | `crates/a/src/b.rs::run` |\n| 2 | `crates/a/src/b.rs` |\n",
            &["docs/flow.md:4"],
        );
    }
}
