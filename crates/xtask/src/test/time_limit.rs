//! A time limit for each program that a test run starts. A test that waits for ever fails by its name, and the run goes on
//! with the next program instead of being ended from outside without a summary.

use std::fs;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The limit of the tests of one file, all of which run within two minutes on two busy cores.
const TEST_PROGRAM_LIMIT: Duration = Duration::from_secs(600);
/// The limit of a suite that is a step of its own.
pub(super) const STEP_LIMIT: Duration = Duration::from_secs(1200);

/// The command of this program that cargo runs test programs with.
pub(crate) const COMMAND: &str = "limit";

/// Arguments with which cargo runs every test program by [`run_limited`].
pub(super) fn cargo_arguments() -> Result<[String; 2]> {
    let program = std::env::current_exe().context("find the path of this program")?;
    let program = program
        .to_str()
        .context("the path of this program is not UTF-8")?;
    let runner = toml::Value::from(vec![program, COMMAND]);
    Ok([
        "--config".to_owned(),
        format!("target.'cfg(all())'.runner = {runner}"),
    ])
}

/// Runs a program with its arguments within the limit of a test program, and returns its exit code.
pub(crate) fn run_limited(args: &[String]) -> Result<u8> {
    let Some((program, args)) = args.split_first() else {
        bail!("`{COMMAND}` needs a program");
    };
    match status(Command::new(program).args(args), TEST_PROGRAM_LIMIT)? {
        None => bail!(
            "{program} was killed after {} s: the tests without a result above have not ended",
            TEST_PROGRAM_LIMIT.as_secs()
        ),
        Some(status) if status.success() => Ok(0),
        Some(status) => Ok(status.code().and_then(|code| code.try_into().ok()).unwrap_or(1)),
    }
}

/// The status of the program; `None` if it took longer and was killed, with everything that it had started.
pub(super) fn status(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let id = child.id();
    let (sender, receiver) = mpsc::sync_channel(1);
    let waiting = thread::spawn(move || drop(sender.send(child.wait())));
    let status = match receiver.recv_timeout(limit) {
        Ok(status) => status.map(Some),
        Err(_) => kill(id).map(|()| None),
    };
    drop(waiting.join());
    status
}

/// Kills the program first, so that it starts nothing else, and then its descendants.
fn kill(id: u32) -> io::Result<()> {
    for id in [vec![id], descendants(id)].concat() {
        Command::new("kill").args(["-KILL", &id.to_string()]).status()?;
    }
    Ok(())
}

/// The processes that a thread of this one, or of one of them, has started. Empty where there is no `/proc`.
fn descendants(id: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{id}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let children: String = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .collect();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    children
        .flat_map(|child: u32| [vec![child], descendants(child)].concat())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_exit_code_is_that_of_the_program() {
        let run = |script: &str| run_limited(&["sh".into(), "-c".into(), script.into()]).unwrap();
        assert_eq!((run("exit 0"), run("exit 7")), (0, 7));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_what_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let pid = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        assert!(
            status(&mut shell(&script), Duration::from_millis(500))
                .unwrap()
                .is_none()
        );
        let pid = fs::read_to_string(pid).unwrap().trim().to_owned();
        let ends = status(&mut shell(&format!("while kill -0 {pid}; do :; done")), LIMIT);
        assert!(ends.unwrap().is_some(), "process {pid} still runs");
    }

    #[test]
    fn cargo_runs_test_programs_by_this_program() {
        let [flag, value] = cargo_arguments().unwrap();
        let config: toml::Table = toml::from_str(&value).unwrap();
        let runner = &config["target"]["cfg(all())"]["runner"];
        assert_eq!((flag.as_str(), runner[1].as_str()), ("--config", Some(COMMAND)));
    }
}
