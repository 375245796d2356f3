//! Runs `setpoint-conformance`: its own tests, or a client suite against a server that it starts; and `setpoint-soak`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::client::{Prepare, SuiteContext};
use super::outcome::Outcome;
use super::time_limit::{self, STEP_LIMIT};

const CONFORMANCE: &str = "setpoint-conformance";
const SOAK: &str = "setpoint-soak";

/// Runs a command of `setpoint-conformance` against servers that it starts.
pub(super) fn run_command(root: &Path, args: &[impl AsRef<OsStr>]) -> Outcome {
    let command = || program(root, CONFORMANCE, args);
    outcome(build(root, CONFORMANCE).and_then(|()| finish(&mut command(), STEP_LIMIT)))
}

/// Runs `setpoint-soak` with a server that it starts. Its own arguments limit its time.
pub(super) fn run_soak(root: &Path, args: &[&str]) -> Outcome {
    let command = || program(root, SOAK, args);
    outcome(build(root, SOAK).and_then(|()| finish(&mut command(), Duration::MAX)))
}

/// Runs `setpoint-soak` with servers on an etcd of three members. Where no namespaces can be made, it is skipped.
pub(super) fn run_soak_etcd(root: &Path, args: &[&str], variables: &[(&str, PathBuf)]) -> Outcome {
    if let Err(why) = check_namespaces() {
        return Outcome::Skipped(format!("no namespaces can be made, root can: {why}"));
    }
    let mut command = program(root, SOAK, args);
    let etcd = variables.iter().map(|(_, path)| path);
    command.args(etcd.flat_map(|path| [Path::new("--etcd-program"), path]));
    outcome(build(root, SOAK).and_then(|()| finish(&mut command, STEP_LIMIT)))
}

/// Whether network and process namespaces can be made, as `setpoint-soak` makes them.
fn check_namespaces() -> Result<(), String> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--mount-proc", "ip", "link"]);
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("cannot start `unshare`: {error}")),
    }
}

/// Prepares a client suite and runs it, against a server on this etcd if there is one. A suite that cannot be prepared is
/// skipped, not failed.
pub(super) fn run_client_suite(
    root: &Path,
    prepare: Prepare,
    variables: &[(&str, PathBuf)],
    etcd: Option<&Path>,
) -> Outcome {
    match with_suite_context(root, variables, prepare) {
        Err(why) => Outcome::Skipped(why),
        Ok(command) => {
            let mut suite = program(root, CONFORMANCE, &["run"]);
            if let Some(etcd) = etcd {
                suite.arg("--etcd").arg(etcd);
            }
            suite.arg("--").args(command);
            outcome(build(root, CONFORMANCE).and_then(|()| finish(&mut suite, STEP_LIMIT)))
        }
    }
}

/// Calls a function with the directories and the program of the first component.
pub(super) fn with_suite_context<T>(
    root: &Path,
    variables: &[(&str, PathBuf)],
    prepare: impl FnOnce(&SuiteContext<'_>) -> T,
) -> T {
    let target = target(root);
    prepare(&SuiteContext {
        root,
        target: &target,
        program: variables.first().map(|(_, path)| path.as_path()),
    })
}

/// A program of the workspace that starts servers.
fn program(root: &Path, name: &str, args: &[impl AsRef<OsStr>]) -> Command {
    let programs = target(root).join("debug");
    let mut command = Command::new(programs.join(name));
    command.args(args).arg("--start").arg(programs.join("setpoint"));
    command.current_dir(root);
    command
}

/// The whole workspace is selected, as by the other steps, so that nothing is built twice.
fn build(root: &Path, program: &str) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--workspace", "--locked", "--quiet"]);
    command.args(["--bin", "setpoint", "--bin", program]);
    finish(command.current_dir(root), Duration::MAX)
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Runs the command, which must succeed within the limit.
fn finish(command: &mut Command, limit: Duration) -> Result<(), String> {
    match time_limit::status(command.stdin(Stdio::null()), limit) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(status.to_string()),
        Ok(None) => Err(format!("killed after {} s", limit.as_secs())),
        Err(error) => Err(format!("cannot start {command:?}: {error}")),
    }
}

fn outcome(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}
