//! `setpoint test`: runs a command with a new cluster in memory, and ends both together.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use setpoint_api::Clock;
use tokio::process::{Child, Command};

use super::components::Signals;
use super::{RunningServer, manifests};
use crate::args::Test;

/// How long the command may take to end after a signal.
const GRACE: Duration = Duration::from_secs(10);
/// What shells add to the number of the signal that ended a command.
const SIGNAL_CODE: i32 = 128;

/// Starts the cluster, creates the objects of the manifests, and runs the command. Returns its exit code.
pub(super) async fn run(args: &Test) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let (server, components) = RunningServer::start(&args.up()).await?;
    let prepare = async {
        server.registry.started().await;
        manifests::create(&args.crds, &server.registry, &server.clock).await
    };
    let work = async {
        tokio::select! {
            prepared = prepare => prepared?,
            signal = signals.next() => return Ok(signal_code(signal.as_raw())),
        }
        let command = CommandGroup::start(&args.command, &server.kubeconfig)?;
        command.wait(&mut signals, &server.clock).await
    };
    components.wait_for(work, &server.clock).await?
}

/// The command and the processes that it starts: a process group. They are killed when this is dropped.
struct CommandGroup {
    command: Child,
    /// The command's process. It is the leader of a group of its own, unless it reads from a terminal: then it stays in
    /// the group that the terminal sends Ctrl-C to.
    pid: Pid,
    is_leader: bool,
}

impl CommandGroup {
    fn start(command: &[OsString], kubeconfig: &Path) -> Result<Self> {
        let (program, arguments) = command.split_first().context("no command")?;
        let is_leader = !io::stdin().is_terminal();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .kill_on_drop(true);
        if is_leader {
            command.process_group(0);
        }
        let command = command.spawn();
        let command = command.with_context(|| format!("cannot run {}", program.display()))?;
        let pid = command.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self {
            pid: pid.context("the command has no process")?,
            command,
            is_leader,
        })
    }

    /// Waits for the command and returns its exit code. A signal is passed on; one more, or the end of the grace period,
    /// kills the command.
    async fn wait(mut self, signals: &mut Signals, clock: &Arc<dyn Clock>) -> Result<u8> {
        let mut is_ending = false;
        let status = loop {
            let too_late = async {
                match is_ending {
                    true => clock.sleep(GRACE).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                status = self.command.wait() => break status.context("cannot wait for the command")?,
                signal = signals.next() => self.send(if is_ending { Signal::KILL } else { signal }),
                () = too_late => self.send(Signal::KILL),
            }
            is_ending = true;
        };
        Ok(exit_code(status))
    }

    /// Sends a signal to all processes of the group. There may be none left.
    fn send(&self, signal: Signal) {
        let _ = match self.is_leader {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

impl Drop for CommandGroup {
    /// Processes that the command left behind are killed. The command itself was waited for or is killed by its handle.
    fn drop(&mut self) {
        if self.is_leader {
            self.send(Signal::KILL);
        }
    }
}

/// The exit code, as a shell reports it.
fn exit_code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => u8::try_from(code).unwrap_or(u8::MAX),
        None => signal_code(status.signal().unwrap_or_default()),
    }
}

/// The exit code of a command that a signal has ended.
fn signal_code(signal: i32) -> u8 {
    u8::try_from(SIGNAL_CODE + signal).unwrap_or(u8::MAX)
}
