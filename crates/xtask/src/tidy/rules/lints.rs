//! Every crate takes the workspace's lint table: a crate without it would pass clippy unchecked.

use toml::{Table, Value};

use crate::tidy::report::Report;
use crate::tidy::tree::Tree;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for manifest in tree
        .sources
        .iter()
        .filter(|source| source.inside() == "Cargo.toml")
    {
        if !takes_workspace_lints(&manifest.text) {
            report.violation_of(&manifest.path, "no lints: add `[lints]` with `workspace = true`");
        }
    }
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let table = manifest.parse::<Table>().unwrap_or_default();
    let lints = table.get("lints").and_then(|lints| lints.get("workspace"));
    lints.and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[test]
    fn a_crate_without_the_lints_is_found() {
        planted::check(
            check,
            &[("crates/a/Cargo.toml", "[package]\nname = \"a\"\n")],
            &["crates/a/Cargo.toml"],
        );
    }

    #[test]
    fn a_crate_with_the_lints_passes() {
        planted::check(
            check,
            &[("crates/a/Cargo.toml", "[lints]\nworkspace = true\n")],
            &[],
        );
    }
}
