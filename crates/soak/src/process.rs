//! [`Process`]: the server as a child process with its data on disk, which is killed and started again.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::Identity;
use setpoint_conformance::time::{now, sleep};
use setpoint_conformance::wire::Endpoint;

use crate::soak::TOKENS;

/// The file descriptors of the server if they are limited.
const FILE_LIMIT: &str = "256";
const POLL: Duration = Duration::from_millis(10);

/// A server that can be restarted on the same port and data directory.
#[derive(Debug)]
pub(crate) struct Process {
    /// The data directory.
    pub(crate) data: PathBuf,
    launch: Launch,
    running: Option<RunningServer>,
}

/// The command line of a server.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    program: PathBuf,
    data: PathBuf,
    /// The directory of the tokens and the log.
    dir: PathBuf,
    /// A program with arguments that executes the server.
    pub(crate) wrapper: Vec<String>,
    pub(crate) address: String,
    /// 0 until the first start has selected one.
    pub(crate) port: u16,
    /// Further flags.
    pub(crate) flags: Vec<String>,
}

#[derive(Debug)]
struct RunningServer {
    child: Child,
    options: StartOptions,
    /// Held open, so that the process's writes do not fail.
    _stdout: BufReader<ChildStdout>,
}

/// How a server is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StartOptions {
    /// Whether the number of file descriptors is limited.
    pub(crate) file_limit: bool,
    /// Variables of the environment.
    pub(crate) environment: Vec<(String, String)>,
}

impl Process {
    /// Starts an empty server with its data in one directory, and its log in another.
    pub(crate) fn start(program: &Path, dir: &Path, data: &Path) -> Result<Self> {
        Self::launch(Launch::new(program, dir, data))
    }

    /// Starts a server by this command line.
    pub(crate) fn launch(launch: Launch) -> Result<Self> {
        fs::write(launch.dir.join("tokens.csv"), TOKENS)?;
        let mut process = Self {
            data: launch.data.clone(),
            launch,
            running: None,
        };
        process.spawn(&StartOptions::default())?;
        Ok(process)
    }

    /// Starts the server again and waits until it serves.
    pub(crate) fn spawn(&mut self, options: &StartOptions) -> Result<()> {
        let mut command = self.launch.command(options);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.launch.dir.join("log"))?;
        command
            .envs(options.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command
            .spawn()
            .with_context(|| format!("start {}", self.launch.program.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().context("the output is piped")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        self.running = Some(RunningServer {
            child,
            options: options.clone(),
            _stdout: stdout,
        });
        ensure!(
            line.contains("serves https://"),
            "the server did not start: {}",
            self.log_end()
        );
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok());
        self.launch.port = port.with_context(|| format!("no port in {line:?}"))?;
        Ok(())
    }

    /// The server for callers with a token.
    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        let mut connection = Kubeconfig::read(&self.data.join("kubeconfig"))?.connection(None)?;
        connection.identity = Identity::Anonymous;
        Ok(Endpoint::new(&connection)?)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.data.join("kubeconfig")
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Whether the process runs. A process that has ended by itself has failed.
    pub(crate) fn is_running(&mut self) -> bool {
        let running = self.running.as_mut();
        running.is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
    }

    /// Whether the process runs, and was started without options.
    pub(crate) fn is_running_normally(&mut self) -> bool {
        let running = self.running.as_ref();
        let is_normal = running.is_some_and(|running| running.options == StartOptions::default());
        is_normal && self.is_running()
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        Ok(kill_process(pid.context("the server does not run")?, signal)?)
    }

    /// Waits for the end of a process that was signalled.
    pub(crate) fn wait_until_ended(&mut self, limit: Duration) -> Result<()> {
        let started = now();
        while self.is_running() {
            ensure!(
                started.elapsed() < limit,
                "the server has not ended after {} s",
                limit.as_secs()
            );
            sleep(POLL);
        }
        Ok(())
    }

    /// Kills the process as a crash would.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut running) = self.running.take() {
            running.child.kill()?;
            running.child.wait()?;
        }
        Ok(())
    }

    /// The end of the server's log.
    pub(crate) fn log_end(&self) -> String {
        let bytes = fs::read(self.launch.dir.join("log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Launch {
    /// A server on the loopback address.
    pub(crate) fn new(program: &Path, dir: &Path, data: &Path) -> Self {
        Self {
            program: program.to_owned(),
            data: data.to_owned(),
            dir: dir.to_owned(),
            wrapper: Vec::new(),
            address: "127.0.0.1".to_owned(),
            port: 0,
            flags: Vec::new(),
        }
    }

    /// With limited file descriptors a shell sets the limit first.
    fn command(&self, options: &StartOptions) -> Command {
        let mut command = match (options.file_limit, self.wrapper.split_first()) {
            (false, None) => Command::new(&self.program),
            (false, Some((wrapper, arguments))) => {
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(&self.program);
                command
            }
            (true, _) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {FILE_LIMIT}; exec \"$0\" \"$@\"")]);
                shell.arg(&self.program);
                shell
            }
        };
        let listen = format!("{}:{}", self.address, self.port);
        command
            .args(["up", "--runtime=simulated", "--listen", &listen, "--data-dir"])
            .arg(&self.data)
            .arg("--token-auth-file")
            .arg(self.dir.join("tokens.csv"))
            .args(&self.flags);
        command
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
