//! `setpoint new` on the command line. That the project builds and passes its test is tested with its template, which is
//! in this workspace.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn new(dir: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command
        .current_dir(dir)
        .args(["new", "controller"])
        .args(line.split_whitespace());
    command.arg("--setpoint").arg(root()).output().unwrap()
}

/// All files below a directory, with their content.
fn files(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((
                    path.strip_prefix(dir).unwrap().to_owned(),
                    fs::read_to_string(&path).unwrap(),
                )),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_project_with_the_templates_names_equals_the_template() {
    let dir = tempfile::tempdir().unwrap();
    let output = new(dir.path(), "greeter-operator");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let crates = root().join("crates").display().to_string();
    let mut written = files(&dir.path().join("greeter-operator"));
    written.retain(|(path, _)| path != Path::new(".gitignore"));
    let mut template = files(&root().join("examples/greeter-operator"));
    for (_, text) in &mut template {
        *text = text
            .replace("[lints]\nworkspace = true\n\n", "")
            .replace("license.workspace = true\n", "")
            .replace("../../crates", &crates);
    }
    assert_eq!(written, template);
}

/// The target triple that this machine builds for.
fn host() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}

/// The manifest and everything it names can be resolved, without a network. Only the host's dependencies are resolved:
/// a build of this workspace has fetched those, and not the ones of other platforms.
#[test]
fn a_project_with_other_names_is_accepted_by_cargo() {
    let dir = tempfile::tempdir().unwrap();
    let output = new(
        dir.path(),
        "backup-operator --kind Backup --group backups.example.org",
    );
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let project = dir.path().join("backup-operator");
    for file in [
        "src/backup.rs",
        "tests/backup_operator.rs",
        "manifests/sample.yaml",
    ] {
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(!text.to_lowercase().contains("greeter"), "{file}: {text}");
    }
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let resolved = Command::new(cargo)
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(["--filter-platform", &host()])
        .current_dir(&project)
        .output()
        .unwrap();
    assert!(
        resolved.status.success(),
        "{}",
        String::from_utf8_lossy(&resolved.stderr)
    );

    let again = new(dir.path(), "backup-operator");
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("already exists"),
        "{again:?}"
    );
}
