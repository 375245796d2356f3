//! Preparation of the test suites in `e2e/`, which use third-party Kubernetes clients.
//!
//! Downloads and build outputs go below `target/e2e`. A suite whose packages cannot be downloaded is skipped with the
//! reason.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prepares a suite. Returns the command line that runs it, or why it cannot run.
pub(super) type Prepare = fn(&SuiteContext<'_>) -> Result<Vec<OsString>, String>;

/// The directories and the program for a suite.
#[derive(Debug)]
pub(super) struct SuiteContext<'a> {
    pub(super) root: &'a Path,
    pub(super) target: &'a Path,
    /// The program of the first component that the suite needs.
    pub(super) program: Option<&'a Path>,
}

/// A virtual environment with the client in it.
pub(super) fn python(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    let (suite, venv) = (context.suite("python"), context.build_dir("python"));
    let python = venv.join("bin/python");
    if !python.is_file() {
        run(Command::new(context.program()?).args(["-m", "venv"]).arg(&venv))?;
    }
    let requirements = suite.join("requirements.txt");
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "-r"])
        .arg(requirements))?;
    Ok(vec![python.into(), suite.join("suite.py").into()])
}

/// The suite is copied, so that its packages are installed beside the copy and not in the source tree.
pub(super) fn node(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    let (suite, build_dir) = (context.suite("node"), context.build_dir("node"));
    fs::create_dir_all(&build_dir).map_err(|error| error.to_string())?;
    for file in ["package.json", "package-lock.json", "suite.mjs"] {
        fs::copy(suite.join(file), build_dir.join(file)).map_err(|error| format!("copy {file}: {error}"))?;
    }
    run(Command::new("npm")
        .args(["ci", "--silent", "--no-audit", "--no-fund"])
        .current_dir(&build_dir))?;
    Ok(vec![
        context.program()?.into(),
        build_dir.join("suite.mjs").into(),
    ])
}

pub(super) fn client_go(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    Ok(vec![context.build_go("client-go")?.into()])
}

/// The suite starts the program itself, as envtest does.
pub(super) fn envtest(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    let setpoint = context.target.join("debug/setpoint");
    Ok(vec![context.build_go("envtest")?.into(), setpoint.into()])
}

/// The suite starts the operator, whose binding contexts it compares with recorded ones.
pub(super) fn shell_operator(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    Ok(vec![
        context.program()?.into(),
        context.suite("shell-operator").join("suite.py").into(),
        context.target.join("debug/setpoint").into(),
        "shell-operator".into(),
    ])
}

/// The newest etcd, as a program with etcd's flags.
pub(super) fn newest_etcd(context: &SuiteContext<'_>) -> Result<PathBuf, String> {
    context.build_go("etcd")
}

/// The CustomResourceDefinitions are downloaded, too, as Go modules.
pub(super) fn crds(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    let program = context.build_go("crds")?;
    let corpus = context.build_dir("crds").join("corpus.json");
    run(Command::new(&program)
        .arg("fetch")
        .arg(&corpus)
        .env("SETPOINT_GO", context.program()?))?;
    Ok(vec![program.into(), corpus.into()])
}

/// A separate workspace, so that the repository's lock file stays clean.
pub(super) fn kube_rs(context: &SuiteContext<'_>) -> Result<Vec<OsString>, String> {
    let build_dir = context.build_dir("kube-rs");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(Command::new(cargo)
        .args(["build", "--quiet", "--locked", "--target-dir"])
        .arg(&build_dir)
        .current_dir(context.suite("kube-rs")))?;
    Ok(vec![build_dir.join("debug/suite").into()])
}

impl SuiteContext<'_> {
    fn suite(&self, name: &str) -> PathBuf {
        self.root.join("e2e").join(name)
    }

    fn build_dir(&self, name: &str) -> PathBuf {
        self.target.join("e2e").join(name)
    }

    /// Builds a suite in Go. Returns its program.
    fn build_go(&self, name: &str) -> Result<PathBuf, String> {
        let program = self.build_dir(name).join("suite");
        run(Command::new(self.program()?)
            .args(["build", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(self.suite(name)))?;
        Ok(program)
    }

    fn program(&self) -> Result<&Path, String> {
        self.program
            .ok_or_else(|| "the suite has no component".to_owned())
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let line = format!("{command:?}");
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line} failed: {status}")),
        Err(error) => Err(format!("cannot start {line}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_cannot_be_prepared_returns_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let context = SuiteContext {
            root: folder.path(),
            target: folder.path(),
            program: Some(Path::new("a-missing-program")),
        };
        let why = python(&context).unwrap_err();
        assert!(why.contains("cannot start"), "{why}");
        assert!(node(&context).unwrap_err().starts_with("copy package.json"));
    }
}
