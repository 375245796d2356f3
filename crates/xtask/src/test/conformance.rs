//! Runs `setpoint-conformance`: its own tests, or a client suite against a server that it starts; and `setpoint-soak`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::client::{Prepare, SuiteContext};
use super::outcome::Outcome;

const CONFORMANCE: &str = "setpoint-conformance";
const SOAK: &str = "setpoint-soak";

/// Runs a command of `setpoint-conformance` against servers that it starts.
pub(super) fn run_command(root: &Path, args: &[&str]) -> Outcome {
    let args = args.iter().map(OsString::from);
    outcome(build(root, CONFORMANCE).and_then(|()| run(root, CONFORMANCE, args)))
}

/// Runs `setpoint-soak` with a server that it starts.
pub(super) fn run_soak(root: &Path, args: &[&str]) -> Outcome {
    let args = args.iter().map(OsString::from);
    outcome(build(root, SOAK).and_then(|()| run(root, SOAK, args)))
}

/// Prepares a client suite and runs it. A suite that cannot be prepared is skipped, not failed.
pub(super) fn run_client_suite(root: &Path, prepare: Prepare, variables: &[(&str, PathBuf)]) -> Outcome {
    let target = target(root);
    let context = SuiteContext {
        root,
        target: &target,
        program: variables.first().map(|(_, path)| path.as_path()),
    };
    match prepare(&context) {
        Err(why) => Outcome::Skipped(why),
        Ok(command) => {
            let args = [OsString::from("run")].into_iter();
            let arguments = [OsString::from("--")].into_iter().chain(command);
            outcome(build(root, CONFORMANCE).and_then(|()| run_with(root, CONFORMANCE, args, arguments)))
        }
    }
}

fn run(root: &Path, program: &str, args: impl Iterator<Item = OsString>) -> Result<(), String> {
    run_with(root, program, args, std::iter::empty())
}

fn run_with(
    root: &Path,
    program: &str,
    args: impl Iterator<Item = OsString>,
    rest: impl Iterator<Item = OsString>,
) -> Result<(), String> {
    let programs = target(root).join("debug");
    let mut command = Command::new(programs.join(program));
    command.args(args).arg("--start").arg(programs.join("setpoint"));
    finish(command.args(rest).current_dir(root))
}

/// The whole workspace is selected, as by the other steps, so that nothing is built twice.
fn build(root: &Path, program: &str) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--workspace", "--locked", "--quiet"]);
    command.args(["--bin", "setpoint", "--bin", program]);
    finish(command.current_dir(root))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn finish(command: &mut Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("cannot start {command:?}: {error}")),
    }
}

fn outcome(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(why),
    }
}
