//! Every kind has its rules written down as rows: YAML in, YAML or field errors out.

use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

const CRATE: &str = "crates/kinds/src/";

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree.rust().filter(|source| source.path.starts_with(CRATE)) {
        let Some(offset) = source.production("impl Strategy for").next() else {
            continue;
        };
        let folders = testdata_folders(source);
        let has_rows = tree
            .sources
            .iter()
            .any(|other| folders.iter().any(|folder| is_row(&other.path, folder)));
        if !has_rows {
            report.violation(
                source,
                offset,
                format!("a kind without rows: put YAML into {}", folders.join(" or ")),
            );
        }
    }
}

/// Where the rows of the kind in this file may lie: in its own folder, or beside it under its name.
fn testdata_folders(source: &Source) -> Vec<String> {
    let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    let (group, kind) = stem.rsplit_once('/').unwrap_or(("", stem));
    let mut folders = vec![format!("{stem}/testdata/"), format!("{group}/testdata/{kind}/")];
    let is_inside_a_kind = group
        .strip_prefix(CRATE)
        .is_some_and(|inside| inside.contains('/'));
    if is_inside_a_kind {
        folders.push(format!("{group}/testdata/"));
    }
    folders
}

fn is_row(path: &str, folder: &str) -> bool {
    path.starts_with(folder) && path.ends_with(".yaml")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    const KIND: &str = "//! A.\nimpl Strategy for ConfigMap {}\n";

    #[test]
    fn a_kind_without_rows_is_found() {
        let files = [("crates/kinds/src/core/config_map.rs", KIND)];
        planted::check(check, &files, &["crates/kinds/src/core/config_map.rs:2"]);
    }

    #[test]
    fn rows_of_another_kind_do_not_count() {
        let files = [
            ("crates/kinds/src/core/config_map.rs", KIND),
            ("crates/kinds/src/core/testdata/secret/a.yaml", "a: b"),
            ("crates/kinds/src/core/testdata/config_map/README.md", "a"),
        ];
        planted::check(check, &files, &["crates/kinds/src/core/config_map.rs:2"]);
    }

    #[test]
    fn rows_beside_the_kind_or_in_its_folder_pass() {
        let files = [
            ("crates/kinds/src/core/config_map.rs", KIND),
            ("crates/kinds/src/core/testdata/config_map/a.yaml", "a: b"),
            (
                "crates/kinds/src/core/pod/mod.rs",
                "//! A.\nimpl Strategy for Pod {}\n",
            ),
            ("crates/kinds/src/core/pod/testdata/a.yaml", "a: b"),
        ];
        planted::check(check, &files, &[]);
    }

    #[test]
    fn a_strategy_made_for_a_test_needs_none() {
        let files = [(
            "crates/kinds/src/builtin.rs",
            "#[cfg(test)]\nmod tests { impl Strategy for Toy {} }\n",
        )];
        planted::check(check, &files, &[]);
    }
}
