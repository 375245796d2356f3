//! docs/compat.md is true: every test it names exists.

use std::collections::HashSet;

use crate::tidy::lexer::is_word;
use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const PAGE: &str = "docs/compat.md";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let Some(page) = tree.find(PAGE) else {
        return report.advice(PAGE, "not there yet, so its tests are not looked up");
    };
    let functions = functions(tree);
    let exists = |name: &str| {
        let last = name.rsplit("::").next().unwrap_or(name);
        functions.contains(last)
            || tree.find(name).is_some()
            || tree.folders.iter().any(|folder| folder == name)
    };
    for (offset, name) in named_tests(&page.text) {
        if !exists(name) {
            report.violation(
                page,
                offset,
                format!("no test, file or folder is called `{name}`: correct the line"),
            );
        }
    }
}

/// Every function's name, wherever it is.
fn functions(tree: &Tree) -> HashSet<&str> {
    let codes = tree.sources.iter().map(|source| source.code.as_str());
    codes
        .flat_map(|code| code.split("fn ").skip(1))
        .map(leading_word)
        .collect()
}

fn leading_word(text: &str) -> &str {
    &text[..text.bytes().take_while(|&byte| is_word(byte)).count()]
}

/// What stands in backticks in the column whose heading is "test", with its offset.
fn named_tests(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut column = None;
    for line in page.lines() {
        if !line.trim_start().starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.split('|').collect();
        match column {
            None => column = Some(cells.iter().position(|cell| is_heading(cell))),
            Some(Some(index)) => found.extend(cells.get(index).into_iter().flat_map(|cell| backticked(cell))),
            Some(None) => {}
        }
    }
    let start = page.as_ptr() as usize;
    found
        .into_iter()
        .map(|name| (name.as_ptr() as usize - start, name))
        .collect()
}

fn is_heading(cell: &str) -> bool {
    matches!(
        cell.trim().to_ascii_lowercase().as_str(),
        "test" | "tests" | "shown by"
    )
}

fn backticked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    const TEST: (&str, &str) = (
        "crates/a/src/b.rs",
        "#[test]\nfn oc1_a_stale_write_conflicts() {}\n",
    );

    #[track_caller]
    fn check_page(rows: &str, positions: &[&str]) {
        let page = format!("# A\n\n| row | state | test |\n|---|---|---|\n{rows}");
        planted::check(check, &[TEST, ("docs/compat.md", &page)], positions);
    }

    #[test]
    fn a_test_that_exists_passes() {
        check_page(
            "| `OC1` | works | `oc1_a_stale_write_conflicts`, `a::b::oc1_a_stale_write_conflicts` |\n",
            &[],
        );
    }

    #[test]
    fn a_file_that_exists_passes() {
        check_page("| OC1 | works | `crates/a/src/b.rs` |\n", &[]);
    }

    #[test]
    fn a_test_that_does_not_exist_is_found() {
        check_page("| OC1 | works | `oc1_a_stale_write` |\n", &["docs/compat.md:5"]);
    }

    #[test]
    fn a_tree_without_the_page_gets_advice_and_passes() {
        let report = planted::report(check, &[TEST]);
        assert_eq!((report.violations(), report.lines().count()), (0, 1));
    }
}
