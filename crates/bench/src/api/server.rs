//! Servers under test, each a child process with its own data directory.

use std::{
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::{Setting, connection::Connection, endpoint::Endpoint, request};
use crate::processes::{self, Memory};

/// The interval of readiness checks of a starting server.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The timeout of a server's start.
const START_LIMIT: Duration = Duration::from_secs(180);

/// The timeout of a server's shutdown, after which it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The components that run in the server besides the API server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerComponents {
    /// The default: controllers and one simulated node.
    All,
    /// The default, with old revisions retained for only a second, like a server that has been idle for a while.
    ShortHistory,
    /// Controllers and so many simulated nodes.
    Nodes(u64),
    /// The API server only, to measure it without controllers.
    ApiOnly,
    /// The API server and the scheduler, with so many workers or its default.
    Scheduler { workers: Option<u32> },
    /// The API server only, in memory, which hosts further clusters.
    Host,
}

/// A running server; dropping it kills its process.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    started: Instant,
    pub(crate) endpoint: Endpoint,
    /// From the start of the process to the first 200 of `/readyz`.
    pub(crate) ready_after: Duration,
    /// CPU time used up to then.
    pub(crate) ready_cpu: Duration,
}

impl Server {
    /// Starts Setpoint on this data directory and waits until it is ready.
    pub(crate) async fn setpoint(
        setting: &Setting,
        dir: &Path,
        components: ServerComponents,
    ) -> Result<Self> {
        let kubeconfig = dir.join("kubeconfig");
        let mut command = Command::new(&setting.setpoint);
        command.args(["up", "--listen", "127.0.0.1:0", "--quiet"]);
        command
            .arg("--data-dir")
            .arg(dir.join("data"))
            .arg("--kubeconfig")
            .arg(&kubeconfig);
        match components {
            ServerComponents::All => {}
            ServerComponents::ShortHistory => drop(command.args(["--keep-history", "1s"])),
            ServerComponents::Nodes(nodes) => drop(command.args(["--nodes", &nodes.to_string()])),
            ServerComponents::ApiOnly => drop(command.args(["--controllers", "none", "--nodes", "0"])),
            ServerComponents::Scheduler { workers } => {
                command.args(["--controllers", "scheduler", "--nodes", "0"]);
                if let Some(workers) = workers {
                    let path = dir.join("scheduler.yaml");
                    std::fs::write(&path, scheduler_config(workers))?;
                    command.arg("--scheduler-config").arg(path);
                }
            }
            ServerComponents::Host => drop(command.args([
                "--controllers",
                "none",
                "--nodes",
                "0",
                "--memory",
                "--host-clusters",
            ])),
        }
        Self::start(command, &kubeconfig).await
    }

    /// Starts the null server.
    pub(crate) async fn null(dir: &Path) -> Result<Self> {
        let kubeconfig = dir.join("null-kubeconfig");
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.arg("null-server").arg("--kubeconfig").arg(&kubeconfig);
        Self::start(command, &kubeconfig).await
    }

    /// Starts a program that writes its kubeconfig, and waits until it is ready.
    pub(crate) async fn start(command: Command, kubeconfig: &Path) -> Result<Self> {
        // The kubeconfig of an earlier start has a port that is closed now.
        if kubeconfig.exists() {
            std::fs::remove_file(kubeconfig)?;
        }
        Self::start_with(command, kubeconfig).await
    }

    /// Starts a program whose kubeconfig exists, and waits until it is ready.
    pub(crate) async fn start_with(mut command: Command, kubeconfig: &Path) -> Result<Self> {
        let start = Instant::now();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = Process(command.spawn().with_context(|| format!("starting {command:?}"))?);
        let endpoint = timeout(START_LIMIT, wait_until_ready(&mut process, kubeconfig))
            .await
            .with_context(|| format!("{command:?} is not ready after {START_LIMIT:?}"))??;
        let ready_after = start.elapsed();
        let ready_cpu = processes::cpu_time(process.0.id())?;
        Ok(Self {
            process,
            started: start,
            endpoint,
            ready_after,
            ready_cpu,
        })
    }

    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        processes::cpu_time(self.process.0.id())
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        processes::memory(self.process.0.id())
    }

    /// Time since the start of the process.
    pub(crate) fn since_start(&self) -> Duration {
        self.started.elapsed()
    }

    /// Terminates the server and waits for its exit.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let pid = Pid::from_child(&self.process.0);
        kill_process(pid, Signal::TERM).context("sending SIGTERM to the server")?;
        let Ok(status) = timeout(STOP_LIMIT, wait_for_exit(&mut self.process.0)).await else {
            bail!("the server has not exited {STOP_LIMIT:?} after SIGTERM");
        };
        let status = status?;
        ensure!(status.success(), "the server exited with {status}");
        Ok(())
    }
}

/// A KubeSchedulerConfiguration with so many parallel scheduling cycles.
fn scheduler_config(workers: u32) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: {workers}\n"
    )
}

/// A new directory for one server, removed with the returned handle.
pub(crate) fn new_dir(setting: &Setting) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("server-")
        .tempdir_in(setting.dir.path())
        .with_context(|| format!("making a directory in {}", setting.dir.path().display()))
}

/// A child that does not outlive its handle.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    /// Errors are ignored: the child has exited already.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn wait_until_ready(process: &mut Process, kubeconfig: &Path) -> Result<Endpoint> {
    loop {
        if let Some(endpoint) = try_ready(kubeconfig).await {
            return Ok(endpoint);
        }
        if let Some(status) = process.0.try_wait()? {
            bail!("the server exited before it was ready: {status}");
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// The endpoint, or `None` if the kubeconfig is absent or incomplete, the port closed, or the server not ready.
async fn try_ready(kubeconfig: &Path) -> Option<Endpoint> {
    if !kubeconfig.exists() {
        return None;
    }
    let endpoint = Endpoint::read(kubeconfig).ok()?;
    let mut connection = Connection::open(&endpoint).await.ok()?;
    let status = connection
        .round_trip(&request::encode("GET", "/readyz", b""))
        .await
        .ok()?
        .status;
    (status == 200).then_some(endpoint)
}

async fn wait_for_exit(child: &mut Child) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        sleep(POLL_INTERVAL).await;
    }
}
