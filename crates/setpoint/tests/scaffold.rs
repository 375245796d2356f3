//! `setpoint new` on the command line. That the project builds and passes its tests is tested with its template, which is
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

/// Runs `setpoint new controller` in a directory.
fn new(dir: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_setpoint"))
        .current_dir(dir)
        .args(["new", "controller"])
        .args(line.split_whitespace())
        .output()
        .unwrap()
}

/// The same, with the source of this workspace.
fn new_with_source(dir: &Path, line: &str) -> Output {
    new(dir, &format!("{line} --setpoint {}", root().display()))
}

/// The standard output. The command must have succeeded.
#[track_caller]
fn stdout(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn cargo(dir: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(dir);
    command
}

/// Cargo resolves all dependencies of a project to the versions of this workspace. It only needs the index of the
/// registry, and of that only the entries that a build of this workspace has read: nothing is downloaded.
#[track_caller]
fn check_resolves(project: &Path) {
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    stdout(
        cargo(project)
            .args(["update", "--workspace", "--offline"])
            .output()
            .unwrap(),
    );
    let lock = fs::read_to_string(project.join("Cargo.lock")).unwrap();
    assert!(lock.contains("name = \"setpoint-runtime\""), "{lock}");
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
    stdout(new_with_source(dir.path(), "greeter-operator"));
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

#[test]
fn a_project_with_other_names_is_accepted_by_cargo() {
    let dir = tempfile::tempdir().unwrap();
    let line = "backup-operator --kind Backup --group backups.example.org";
    stdout(new_with_source(dir.path(), line));
    let project = dir.path().join("backup-operator");
    for file in [
        "src/backup.rs",
        "tests/backup_operator.rs",
        "manifests/sample.yaml",
    ] {
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(!text.to_lowercase().contains("greeter"), "{file}: {text}");
    }
    check_resolves(&project);

    let again = new_with_source(dir.path(), "backup-operator");
    assert!(
        String::from_utf8_lossy(&again.stderr).contains("already exists"),
        "{again:?}"
    );
}

/// The names of the published crates.
fn published() -> Vec<String> {
    let manifests = fs::read_dir(root().join("crates")).unwrap();
    let manifests = manifests.map(|entry| entry.unwrap().path().join("Cargo.toml"));
    let is_published = |path: &PathBuf| fs::read_to_string(path).unwrap().contains("\npublish = true\n");
    let folder = |path: PathBuf| path.parent().unwrap().file_name().unwrap().to_owned();
    let folders = manifests.filter(is_published).map(folder);
    folders
        .map(|folder| format!("setpoint-{}", folder.to_str().unwrap()))
        .collect()
}

/// Packages the published crates, unpacks them to a directory, and returns a cargo configuration that finds them there.
fn registry(dir: &Path) -> String {
    let mut package = cargo(&root());
    package.args([
        "package",
        "--no-verify",
        "--allow-dirty",
        "--offline",
        "--quiet",
        "--target-dir",
    ]);
    package.arg(dir);
    let crates = published();
    for name in &crates {
        package.args(["--package", name]);
    }
    stdout(package.output().unwrap());
    let mut config = "[patch.crates-io]\n".to_owned();
    for name in &crates {
        let unpacked = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let mut tar = Command::new("tar");
        tar.current_dir(dir)
            .args(["-xzf", &format!("package/{unpacked}.crate")]);
        stdout(tar.output().unwrap());
        let path = dir.join(unpacked).display().to_string();
        config.push_str(&format!("{name} = {{ path = {path:?} }}\n"));
    }
    config
}

/// The packages stand in for those of a registry.
#[test]
fn a_project_without_the_source_depends_on_the_packages_by_version() {
    let dir = tempfile::tempdir().unwrap();
    let note = stdout(new(dir.path(), "backup-operator"));
    assert!(note.contains("--setpoint DIR"), "{note}");
    let project = dir.path().join("backup-operator");
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        manifest.contains(&format!("setpoint-api = \"{version}\"")) && !manifest.contains("path ="),
        "{manifest}"
    );
    let names_test_kit = |(path, text): (PathBuf, String)| text.contains("setpoint_testkit").then_some(path);
    let with_test_kit: Vec<PathBuf> = files(&project).into_iter().filter_map(names_test_kit).collect();
    assert_eq!(with_test_kit, [""; 0].map(PathBuf::from));
    let config = registry(&dir.path().join("registry"));
    fs::create_dir(project.join(".cargo")).unwrap();
    fs::write(project.join(".cargo/config.toml"), config).unwrap();
    check_resolves(&project);
}
