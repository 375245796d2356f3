//! Real processes: `setpoint up`, and the programs under test that talk to it.

#![allow(clippy::print_stdout, reason = "skipped tests are reported")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

/// A process that a test has started. It is killed when this is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    process: Child,
}

/// A running `setpoint up` and its data directory.
#[derive(Debug)]
pub struct SetpointProcess {
    _program: ChildProcess,
    /// The rest of its output is not read, but the pipe must stay open.
    _stdout: BufReader<ChildStdout>,
    dir: TempDir,
}

impl ChildProcess {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let process = command.stdin(Stdio::null()).spawn();
        Self {
            process: process.expect("the program can be started"),
        }
    }

    /// Its standard error, where the command pipes it. The caller must read it, or the process blocks.
    pub fn stderr(&mut self) -> Option<BufReader<ChildStderr>> {
        self.process.stderr.take().map(BufReader::new)
    }

    /// Sends SIGTERM, waits for the process to end, and returns whether it succeeded.
    pub fn terminate(mut self) -> bool {
        let pid = self.process.id().to_string();
        let signaled = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(
            signaled.is_ok_and(|status| status.success()),
            "cannot send SIGTERM to {pid}"
        );
        self.process.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // A process that has ended already cannot be killed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl SetpointProcess {
    /// Starts the `setpoint` binary in the directory of another program, with an in-memory store, and waits until it
    /// serves. `None` where it was not built, except in CI, where that is a failure.
    pub fn start_beside(neighbour: &str, flags: &[&str]) -> Option<Self> {
        let program = Path::new(neighbour).with_file_name("setpoint");
        if !program.is_file() {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "{program:?} is required here"
            );
            println!("SKIPPED: {program:?} was not built");
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary directory can be created");
        let mut command = Command::new(program);
        command
            .args(["up", "--memory", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path())
            .args(flags)
            .stdout(Stdio::piped());
        let mut program = ChildProcess::start(&mut command);
        let mut line = String::new();
        let out = program.process.stdout.take().expect("its output is piped");
        let mut stdout = BufReader::new(out);
        let read = stdout.read_line(&mut line);
        assert!(read.is_ok() && line.contains("serves https://"), "{line:?}");
        Some(Self {
            _program: program,
            _stdout: stdout,
            dir,
        })
    }

    /// The path of the kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Writes a file where kubectl can read it, and returns its path.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).expect("the file can be written");
        path.display().to_string()
    }

    /// The path of a kubeconfig of a service account. `None` without kubectl.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> Option<PathBuf> {
        let token = self.kubectl(&format!("create token {account} -n {namespace}"))?;
        let own = std::fs::read_to_string(self.kubeconfig()).expect("the kubeconfig is there");
        let path = self.dir.path().join(format!("{namespace}-{account}"));
        std::fs::write(&path, own).expect("the file can be written");
        let path_text = path.display();
        let token = token.trim();
        self.kubectl(&format!(
            "config --kubeconfig {path_text} set-credentials account --token={token}"
        ))?;
        self.kubectl(&format!(
            "config --kubeconfig {path_text} set-context --current --user=account"
        ))?;
        Some(path)
    }

    /// A command whose kubeconfig is that of this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.dir.path());
        command
    }

    /// The output of a kubectl command that must succeed; `None` without kubectl, except in CI, where that is a failure.
    #[track_caller]
    pub fn kubectl(&self, line: &str) -> Option<String> {
        let program = std::env::var("SETPOINT_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
        let Ok(Output {
            status,
            stdout,
            stderr,
        }) = self.command(&program).args(line.split_whitespace()).output()
        else {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "{program:?} is required here"
            );
            println!("SKIPPED: {program:?} cannot be run");
            return None;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(status.success(), "kubectl {line}: {}", text(&stderr));
        Some(text(&stdout))
    }
}
