//! Dependencies between our crates point down, by the table in `tidy/layers.rs`.

use toml::{Table, Value};

use crate::tidy::layers::CrateRow;
use crate::tidy::report::Report;
use crate::tidy::source::Source;
use crate::tidy::tree::Tree;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for manifest in tree
        .sources
        .iter()
        .filter(|source| source.inside() == "Cargo.toml")
    {
        check_manifest(manifest, report);
    }
}

fn check_manifest(manifest: &Source, report: &mut Report) {
    let Ok(table) = manifest.text.parse::<Table>() else {
        return report.violation_of(&manifest.path, "not valid TOML: repair it");
    };
    let Some(row) = manifest.krate().and_then(CrateRow::find) else {
        return report.violation_of(
            &manifest.path,
            "the crate has no row in the layer table: decide its level first",
        );
    };
    for (section, other) in dependencies(&table) {
        let allowed = match (section, CrateRow::find(&other)) {
            (_, None) => false,
            ("dev-dependencies", Some(other)) => row.may_test_with(other),
            (_, Some(other)) => row.may_depend_on(other),
        };
        if !allowed {
            let offset = manifest.text.find(&format!("setpoint-{other}")).unwrap_or(0);
            let what = format!(
                "`{}` may not use `{other}` in [{section}]: see the layer table",
                row.name
            );
            report.violation(manifest, offset, what);
        }
    }
}

/// Our own crates among a manifest's dependencies, with the section that names them.
fn dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets
        .into_iter()
        .flat_map(Table::values)
        .filter_map(Value::as_table);
    std::iter::once(manifest)
        .chain(tables)
        .flat_map(sections)
        .collect()
}

fn sections(table: &Table) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(entries) = table.get(section).and_then(Value::as_table) else {
            continue;
        };
        let packages = entries.iter().map(|(name, value)| package(name, value));
        found.extend(packages.filter_map(|name| Some((section, name.strip_prefix("setpoint-")?.to_owned()))));
    }
    found
}

/// A dependency may be renamed; its package is what counts.
fn package<'a>(name: &'a str, value: &'a Value) -> &'a str {
    value.get("package").and_then(Value::as_str).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[track_caller]
    fn check_manifest(krate: &str, manifest: &str, positions: &[&str]) {
        planted::check(
            check,
            &[(&format!("crates/{krate}/Cargo.toml"), manifest)],
            positions,
        );
    }

    #[test]
    fn a_dependency_of_the_table_passes() {
        check_manifest(
            "codec",
            "[dependencies]\nsetpoint-api.workspace = true\nserde = \"1\"\n",
            &[],
        );
    }

    #[test]
    fn a_dependency_that_points_up_is_found() {
        check_manifest(
            "api",
            "[dependencies]\nsetpoint-codec.workspace = true\n",
            &["crates/api/Cargo.toml:2"],
        );
    }

    #[test]
    fn a_lower_crate_that_the_row_does_not_name_is_found() {
        check_manifest(
            "scheduler",
            "[dependencies]\nsetpoint-cache = { path = \"../cache\" }\n",
            &["crates/scheduler/Cargo.toml:2"],
        );
    }

    #[test]
    fn a_renamed_dependency_is_found() {
        check_manifest(
            "node",
            "[dependencies]\nx = { package = \"setpoint-store\", path = \"y\" }\n",
            &["crates/node/Cargo.toml:2"],
        );
    }

    #[test]
    fn a_dependency_for_one_platform_is_found() {
        let manifest = "[target.'cfg(unix)'.dependencies]\nsetpoint-registry.workspace = true\n";
        check_manifest("runtime", manifest, &["crates/runtime/Cargo.toml:2"]);
    }

    #[test]
    fn tests_may_use_the_test_kit_and_what_lies_lower() {
        let manifest =
            "[dev-dependencies]\nsetpoint-testkit.workspace = true\nsetpoint-registry.workspace = true\n";
        check_manifest("controllers", manifest, &[]);
    }

    #[test]
    fn tests_may_not_use_what_lies_higher() {
        check_manifest(
            "kinds",
            "[dev-dependencies]\nsetpoint-registry.workspace = true\n",
            &["crates/kinds/Cargo.toml:2"],
        );
    }

    #[test]
    fn nothing_that_ships_uses_the_test_kit() {
        check_manifest(
            "setpoint",
            "[dependencies]\nsetpoint-testkit.workspace = true\n",
            &["crates/setpoint/Cargo.toml:2"],
        );
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        check_manifest("attic", "[dependencies]\n", &["crates/attic/Cargo.toml"]);
    }
}
