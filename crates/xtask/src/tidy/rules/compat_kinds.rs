//! docs/compat.md has a row, with its test, for every kind that is served. The corpus has an object of each, so it is the
//! list; a test of the corpus holds it to discovery.

use std::collections::BTreeSet;

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const PAGE: &str = "docs/compat.md";
const CORPUS: &str = "crates/conformance/corpus/kinds.yaml";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let (Some(page), Some(corpus)) = (tree.find(PAGE), tree.find(CORPUS)) else {
        return;
    };
    let rows: BTreeSet<String> = page.text.lines().filter_map(kind_of_row).collect();
    for kind in kinds(&corpus.text) {
        if !rows.contains(&kind) {
            report.violation_of(&page.path, format!("no row with a test for `{kind}`: write one"));
        }
    }
}

/// Every `version Kind` of the objects in the corpus.
fn kinds(corpus: &str) -> BTreeSet<String> {
    let after = corpus.split("apiVersion: ").skip(1);
    after
        .filter_map(|text| {
            let version = word(text);
            let kind = text[version.len()..]
                .trim_start_matches([',', ' ', '\n'])
                .strip_prefix("kind: ")?;
            Some(format!("{version} {}", word(kind)))
        })
        .collect()
}

fn word(text: &str) -> &str {
    text.split([',', '\n', '}', ' ']).next().unwrap_or_default()
}

/// The kind in the first cell of a row whose last cell names a test.
fn kind_of_row(line: &str) -> Option<String> {
    let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
    let (first, last) = (cells.first()?, cells.last()?);
    (cells.len() >= 3 && last.contains('`')).then(|| first.to_string())
}

#[cfg(test)]
mod tests {
    use super::{check, kinds};
    use crate::tidy::planted;

    const CORPUS: &str = "- at: /a\n  object: {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- at: /b\n  object:\n    apiVersion: apps/v1\n    kind: Deployment\n";

    #[track_caller]
    fn check_page(rows: &str, positions: &[&str]) {
        let page = format!("| kind | verbs | test |\n|---|---|---|\n{rows}");
        let files = [
            ("crates/conformance/corpus/kinds.yaml", CORPUS),
            ("docs/compat.md", &page),
        ];
        planted::check(check, &files, positions);
    }

    #[test]
    fn kinds_are_read_in_both_forms() {
        let kinds: Vec<String> = kinds(CORPUS).into_iter().collect();
        assert_eq!(kinds, ["apps/v1 Deployment", "v1 Pod"]);
    }

    #[test]
    fn a_kind_without_a_row_is_found() {
        check_page("| v1 Pod | all | `a` |\n", &["docs/compat.md"]);
    }

    #[test]
    fn a_row_without_a_test_is_no_row() {
        check_page(
            "| v1 Pod | all | `a` |\n| apps/v1 Deployment | all | not yet |\n",
            &["docs/compat.md"],
        );
    }

    #[test]
    fn a_row_for_each_kind_passes() {
        check_page(
            "| v1 Pod | all | `a` |\n| apps/v1 Deployment | all | `b` |\n",
            &[],
        );
    }
}
