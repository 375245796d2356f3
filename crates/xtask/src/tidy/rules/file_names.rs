//! File and folder names name their subject: no `utils`, `common`, `types`.

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

const EMPTY_NAMES: &[&str] = &["base", "common", "helpers", "misc", "types", "utils"];

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let files = tree
        .rust()
        .filter_map(|source| source.path.strip_suffix(".rs").map(|stem| (stem, &source.path)));
    let folders = tree
        .folders
        .iter()
        .filter(|folder| folder.starts_with("crates/"))
        .map(|path| (path.as_str(), path));
    for (stem, path) in files.chain(folders) {
        let name = stem.rsplit('/').next().unwrap_or(stem);
        if EMPTY_NAMES.contains(&name) {
            report.violation_of(
                path,
                format!("`{name}` has no subject: name it after its subject"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn an_empty_name_is_found_on_files_and_folders() {
        let files = [
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/common/queue.rs", ""),
        ];
        planted::check(check, &files, &["crates/a/src/utils.rs", "crates/a/src/common"]);
    }

    #[test]
    fn a_name_with_a_subject_passes() {
        planted::check(
            check,
            &[
                ("crates/a/src/base64.rs", ""),
                ("crates/a/src/common_name.rs", ""),
            ],
            &[],
        );
    }
}
