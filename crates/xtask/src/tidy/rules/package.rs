//! A library crate has what its users and a registry need: a description, a README, documented features, and a version
//! beside its path in the workspace. Its dependencies among our crates are libraries, too.

use toml::{Table, Value};

use crate::tidy::layers::LIBRARIES;
use crate::tidy::layers::LIBRARIES_IN_SOURCE;
use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    let workspace = tree
        .find("Cargo.toml")
        .and_then(|root| root.text.parse::<Table>().ok());
    for krate in LIBRARIES.iter().chain(LIBRARIES_IN_SOURCE) {
        let Some(manifest) = tree.find(&format!("crates/{krate}/Cargo.toml")) else {
            continue;
        };
        let table = manifest.text.parse::<Table>().unwrap_or_default();
        check_metadata(tree, manifest, &table, report);
        check_features(manifest, &table, report);
        if LIBRARIES.contains(krate) {
            check_published(manifest, &table, workspace.as_ref(), report);
        }
    }
}

fn check_metadata(tree: &Tree, manifest: &Source, table: &Table, report: &mut Report) {
    let package = table.get("package");
    let has = |key: &str| package.and_then(|package| package.get(key)).is_some();
    for key in [
        "description",
        "readme",
        "keywords",
        "categories",
        "license",
        "rust-version",
    ] {
        if !has(key) {
            report.violation_of(&manifest.path, format!("no `{key}` in [package]: add it"));
        }
    }
    let readme = manifest.path.replace("Cargo.toml", "README.md");
    if tree.find(&readme).is_none() {
        report.violation_of(&readme, "a library crate has a README: write it");
    }
}

/// The line before a feature is its comment.
fn check_features(manifest: &Source, table: &Table, report: &mut Report) {
    let features = table.get("features").and_then(Value::as_table);
    for name in features.into_iter().flat_map(Table::keys) {
        let lines: Vec<&str> = manifest.text.lines().collect();
        let features = lines.iter().position(|line| *line == "[features]").unwrap_or(0);
        let is_feature = |line: &&str| line.split('=').next().is_some_and(|key| key.trim() == name);
        let at = lines
            .iter()
            .skip(features)
            .position(is_feature)
            .map(|at| at + features);
        let is_documented = at.is_some_and(|at| at > 0 && lines[at - 1].starts_with('#'));
        if !is_documented {
            let what = format!("feature `{name}` has no comment on the line before: describe its effect");
            report.violation_of(&manifest.path, what);
        }
    }
}

fn check_published(manifest: &Source, table: &Table, workspace: Option<&Table>, report: &mut Report) {
    let publish = table.get("package").and_then(|package| package.get("publish"));
    if publish.and_then(Value::as_bool) != Some(true) {
        report.violation_of(
            &manifest.path,
            "a library crate is published: set `publish = true`",
        );
    }
    let dependencies = table.get("dependencies").and_then(Value::as_table);
    let names = dependencies.into_iter().flat_map(Table::keys);
    for name in names.filter_map(|name| name.strip_prefix("setpoint-")) {
        if !LIBRARIES.contains(&name) {
            let what = format!("depends on `setpoint-{name}`, which is not published");
            report.violation_of(&manifest.path, what);
        }
    }
    let ours = format!("setpoint-{}", manifest.krate().unwrap_or_default());
    let entry = workspace.and_then(|workspace| {
        workspace
            .get("workspace")?
            .get("dependencies")?
            .get(&ours)?
            .get("version")
    });
    let version = workspace.and_then(|workspace| workspace.get("workspace")?.get("package")?.get("version"));
    if entry.is_none() || entry != version {
        let what = format!("`{ours}` has no `version` beside its `path`, or not the workspace's: set it");
        report.violation_of("Cargo.toml", what);
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    const WORKSPACE: &str = "[workspace.package]\nversion = \"0.1.0\"\n\
        [workspace.dependencies]\nsetpoint-api = { path = \"crates/api\", version = \"0.1.0\" }\n";
    const PACKAGE: &str = "[package]\nlicense.workspace = true\nrust-version.workspace = true\npublish = true\n\
        description = \"A.\"\nreadme = \"README.md\"\nkeywords = [\"a\"]\ncategories = [\"b\"]\n";

    #[track_caller]
    fn check_crate(workspace: &str, manifest: &str, positions: &[&str]) {
        planted::check(
            check,
            &[
                ("Cargo.toml", workspace),
                ("crates/api/Cargo.toml", manifest),
                ("crates/api/README.md", "# A\n"),
            ],
            positions,
        );
    }

    #[test]
    fn a_complete_library_passes() {
        let features = format!("{PACKAGE}[features]\n# Adds b.\nb = []\n");
        check_crate(WORKSPACE, &features, &[]);
    }

    #[test]
    fn a_library_without_metadata_or_readme_is_found() {
        let manifest = PACKAGE.replace("description = \"A.\"\n", "");
        check_crate(WORKSPACE, &manifest, &["crates/api/Cargo.toml"]);
        planted::check(
            check,
            &[("Cargo.toml", WORKSPACE), ("crates/api/Cargo.toml", PACKAGE)],
            &["crates/api/README.md"],
        );
    }

    #[test]
    fn a_feature_without_a_comment_is_found() {
        let manifest = format!("{PACKAGE}[features]\n# Adds b.\nb = []\nc = []\n");
        check_crate(WORKSPACE, &manifest, &["crates/api/Cargo.toml"]);
    }

    #[test]
    fn a_library_that_cannot_be_published_is_found() {
        let manifest = PACKAGE.replace("publish = true", "publish = false");
        check_crate(WORKSPACE, &manifest, &["crates/api/Cargo.toml"]);
        let manifest = format!("{PACKAGE}[dependencies]\nsetpoint-store.workspace = true\n");
        check_crate(WORKSPACE, &manifest, &["crates/api/Cargo.toml"]);
        check_crate(
            &WORKSPACE.replace(", version = \"0.1.0\"", ""),
            PACKAGE,
            &["Cargo.toml"],
        );
    }
}
