//! An operator under test: a child process with hooks that count their runs.

use std::{
    cell::RefCell,
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::Program;
use crate::processes::{self, Memory};

/// The timeout of an operator's shutdown, after which it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// A directory with hooks, the files of their runs, and the log of the operator.
#[derive(Debug)]
pub(super) struct HooksDir(PathBuf);

/// A running operator; dropping it kills its process.
#[derive(Debug)]
pub(super) struct Operator {
    child: RefCell<Child>,
    log: PathBuf,
}

impl HooksDir {
    pub(super) fn create(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir.join("hooks"))?;
        fs::create_dir_all(dir.join("runs"))?;
        Ok(Self(dir.to_owned()))
    }

    /// Adds a hook that appends one byte to its file with each run.
    pub(super) fn add(&self, name: &str, config: &str) -> Result<()> {
        let path = self.0.join("hooks").join(name);
        let runs = self.0.join("runs").join(name);
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'END'\n{config}\nEND\nexit 0; fi\nprintf x >> {}\n",
            runs.display()
        );
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// How often a hook has run.
    pub(super) fn runs(&self, name: &str) -> u64 {
        fs::metadata(self.0.join("runs").join(name)).map_or(0, |file| file.len())
    }
}

impl Operator {
    /// Starts a program with hooks. Flags are given as environment variables, which are the same for both programs.
    pub(super) fn start(program: &Program, hooks: &HooksDir, kubeconfig: &Path) -> Result<Self> {
        let log = hooks.0.join("operator.log");
        let output = fs::File::create(&log)?;
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .arg("start")
            .env("SHELL_OPERATOR_HOOKS_DIR", hooks.0.join("hooks"))
            .env("SHELL_OPERATOR_TMP_DIR", hooks.0.join("tmp"))
            .env("SHELL_OPERATOR_LISTEN_ADDRESS", "127.0.0.1")
            .env("SHELL_OPERATOR_LISTEN_PORT", free_port()?.to_string())
            .env("DEBUG_UNIX_SOCKET", hooks.0.join("debug.socket"))
            .env("KUBE_CONFIG", kubeconfig)
            .env("KUBE_CLIENT_QPS", "500")
            .env("KUBE_CLIENT_BURST", "1000")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
        Ok(Self {
            child: RefCell::new(child),
            log,
        })
    }

    pub(super) fn cpu_time(&self) -> Result<Duration> {
        processes::cpu_time(self.child.borrow().id())
    }

    pub(super) fn memory(&self) -> Result<Memory> {
        processes::memory(self.child.borrow().id())
    }

    /// An error if the process has ended.
    pub(super) fn check_running(&self) -> Result<()> {
        match self.child.borrow_mut().try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the operator exited with {status}:\n{}", self.log_end()),
        }
    }

    pub(super) fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Terminates the operator and waits for its exit.
    pub(super) async fn stop(self) -> Result<()> {
        let pid = Pid::from_child(&self.child.borrow());
        kill_process(pid, Signal::TERM).context("sending SIGTERM to the operator")?;
        let start = Instant::now();
        while self.child.borrow_mut().try_wait()?.is_none() {
            if start.elapsed() > STOP_LIMIT {
                bail!("the operator has not exited {STOP_LIMIT:?} after SIGTERM");
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

impl Drop for Operator {
    /// Errors are ignored: the child has exited already.
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
