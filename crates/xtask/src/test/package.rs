//! The packages of the published crates: all of them can be made together, and each has the files that its users need.
//!
//! They are not built from their packages, which would compile every dependency again with other features; that each
//! crate builds is tested by the other steps, and that the packages fit together by the tests of `setpoint new`.

use std::path::Path;
use std::process::{Command, Stdio};

use super::outcome::Outcome;
use crate::tidy::layers::LIBRARIES;

/// The files that every package has.
const REQUIRED: &[&str] = &["Cargo.toml", "LICENSE", "README.md", "src/lib.rs"];
/// The folders that no package has: what is in them depends on crates that are not published.
const EXCLUDED: &[&str] = &["benches/", "tests/"];

/// Packages the crates and checks the list of files of each.
pub(super) fn run(root: &Path) -> Outcome {
    match package_all(root).and_then(|()| LIBRARIES.iter().try_for_each(|name| check_files(root, name))) {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}

fn package_all(root: &Path) -> Result<(), String> {
    let mut command = cargo_package(root, LIBRARIES);
    let status = command.args(["--no-verify", "--quiet"]).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo package: {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

fn check_files(root: &Path, name: &str) -> Result<(), String> {
    let listed = cargo_package(root, &[name])
        .args(["--list", "--quiet"])
        .stderr(Stdio::inherit())
        .output();
    let listed = listed.map_err(|error| format!("cannot start cargo: {error}"))?;
    if !listed.status.success() {
        return Err(format!("cargo package --list: {}", listed.status));
    }
    check_list(name, &String::from_utf8_lossy(&listed.stdout))
}

/// Uncommitted changes are packaged, too: a workstation tests what it has.
fn cargo_package(root: &Path, names: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root)
        .stdin(Stdio::null())
        .args(["package", "--locked", "--allow-dirty"]);
    for name in names {
        command.args(["--package", &format!("setpoint-{name}")]);
    }
    command
}

fn check_list(name: &str, files: &str) -> Result<(), String> {
    let files: Vec<&str> = files.lines().collect();
    if let Some(missing) = REQUIRED.iter().find(|file| !files.contains(file)) {
        return Err(format!("the package of {name} has no {missing}"));
    }
    let is_excluded = |file: &&&str| EXCLUDED.iter().any(|folder| file.starts_with(folder));
    match files.iter().find(is_excluded) {
        Some(file) => Err(format!("the package of {name} has {file}: exclude it")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &str, expected: Result<(), &str>) {
        assert_eq!(check_list("api", files), expected.map_err(str::to_owned));
    }

    #[test]
    fn a_package_has_its_licence_and_no_tests() {
        let fine = "Cargo.toml\nLICENSE\nREADME.md\nsrc/lib.rs";
        check(fine, Ok(()));
        check(
            &fine.replace("LICENSE\n", ""),
            Err("the package of api has no LICENSE"),
        );
        check(
            &format!("{fine}\ntests/a.rs"),
            Err("the package of api has tests/a.rs: exclude it"),
        );
    }
}
