//! A cluster of one real process, for the tests that need one.

#![allow(dead_code, reason = "each test file uses some of these helpers")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "skipped tests are printed")]

pub(crate) mod component;
pub(crate) mod etcd_process;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use setpoint_api::{Serve, User};
use setpoint_client::kubeconfig::{Connection, Identity};
use setpoint_client::{Client, Http, Kubeconfig};
use tempfile::TempDir;

use etcd_process::EtcdProcess;

/// A running `setpoint up`. It is killed when it is dropped.
pub(crate) struct Cluster {
    process: Child,
    pub(crate) dir: Arc<TempDir>,
    /// Dropped after the server.
    _etcd: Option<EtcdProcess>,
}

/// The program of an etcd on which the clusters of tests store their objects, each on one of its own. Without it they have
/// the store that their flags name.
const STORE_ETCD: &str = "SETPOINT_STORE_ETCD";

impl Cluster {
    /// Starts an empty cluster.
    pub(crate) fn new(flags: &[&str]) -> Self {
        Self::start(&Arc::new(tempfile::tempdir().unwrap()), flags)
    }

    /// Starts a cluster on an existing data directory, and waits until it serves.
    pub(crate) fn start(dir: &Arc<TempDir>, flags: &[&str]) -> Self {
        Self::start_command(&["up", "--runtime=simulated"], dir, flags)
    }

    /// Starts an API server without other components on a data directory, and waits until it serves.
    pub(crate) fn start_apiserver(dir: &Arc<TempDir>, flags: &[&str]) -> Self {
        Self::start_command(&["apiserver"], dir, flags)
    }

    fn start_command(command: &[&str], dir: &Arc<TempDir>, flags: &[&str]) -> Self {
        let (etcd, flags) = on_etcd(dir.path(), flags);
        let mut process = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(command)
            .args(["--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path())
            .args(flags)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("serves https://127.0.0.1:"), "{line:?}");
        Self {
            process,
            dir: dir.clone(),
            _etcd: etcd,
        }
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub(crate) fn connection(&self) -> Connection {
        Kubeconfig::read(&self.kubeconfig())
            .unwrap()
            .connection(None)
            .unwrap()
    }

    /// A client with its own connection.
    pub(crate) fn client(&self) -> Client {
        client(&self.connection())
    }

    /// A client without credentials.
    pub(crate) fn anonymous(&self) -> Client {
        client(&Connection {
            identity: Identity::Anonymous,
            ..self.connection()
        })
    }

    /// Kills the process without waiting for its exit.
    pub(crate) fn begin_kill(&mut self) {
        self.process.kill().unwrap();
    }

    /// Kills the process (SIGKILL) and waits for it.
    pub(crate) fn kill(mut self) -> Arc<TempDir> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.dir.clone()
    }

    /// Terminates the process (SIGTERM) and waits for it. Returns whether its exit code was 0.
    pub(crate) fn terminate(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.process.wait().unwrap().success()
    }

    /// A kubectl for this cluster; `None`, after printing so, if there is none on this machine.
    pub(crate) fn kubectl(&self) -> Option<Kubectl> {
        let program = std::env::var("SETPOINT_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
        let found = Command::new(&program).args(["version", "--client"]).output();
        if found.is_ok_and(|output| output.status.success()) {
            return Some(Kubectl {
                program,
                kubeconfig: self.kubeconfig(),
                home: self.dir.clone(),
                variables: Vec::new(),
            });
        }
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "kubectl is required here and {program} is none"
        );
        println!("SKIPPED: {program} is no kubectl");
        None
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The etcd of a cluster, if tests run on etcd, and the flags with it instead of another store. A server that is started
/// again on its directory has the same objects.
fn on_etcd(dir: &Path, flags: &[&str]) -> (Option<EtcdProcess>, Vec<String>) {
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let program = std::env::var(STORE_ETCD).ok();
    let Some(program) = program.filter(|program| !program.is_empty()) else {
        return (None, flags.collect());
    };
    let etcd = EtcdProcess::start(&program, &dir.join("etcd"));
    let stores = ["--memory", "--unsafe-no-fsync"];
    let others = flags.filter(|flag| !stores.contains(&flag.as_str()));
    let servers = format!("--etcd-servers={}", etcd.url);
    let flags = others.chain([servers]).collect();
    (Some(etcd), flags)
}

fn client(connection: &Connection) -> Client {
    let serve: Arc<dyn Serve> = Arc::new(Http::new(connection).unwrap());
    Client::new(serve, Arc::new(User::default()))
}

/// Runs kubectl on one cluster.
pub(crate) struct Kubectl {
    program: String,
    kubeconfig: PathBuf,
    home: Arc<TempDir>,
    variables: Vec<(&'static str, String)>,
}

impl Kubectl {
    /// Its standard output. It must succeed.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "kubectl {line}: {err}{out}");
        out
    }

    /// Its standard error. It must fail.
    #[track_caller]
    pub(crate) fn fail(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        assert!(
            !output.status.success(),
            "kubectl {line} succeeded: {}",
            text(&output.stdout)
        );
        text(&output.stderr)
    }

    /// The exit code, then the output, whether it succeeds or not.
    pub(crate) fn outcome(&self, line: &str) -> (i32, String) {
        let output = self.command(line).output().unwrap();
        let code = output.status.code().unwrap_or(-1);
        (code, text(&output.stdout) + &text(&output.stderr))
    }

    /// Its standard output, with these bytes as its standard input. It must succeed.
    #[track_caller]
    pub(crate) fn pipe(&self, line: &str, input: &[u8]) -> String {
        let mut command = self.command(line);
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = piped.spawn().unwrap();
        process.stdin.take().unwrap().write_all(input).unwrap();
        let output = process.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "kubectl {line}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// The same kubectl with another kubeconfig.
    pub(crate) fn with_kubeconfig(self, kubeconfig: &str) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            ..self
        }
    }

    /// The same kubectl with one more variable in its environment.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Starts it and reads its output until a line contains the text; the rest is read later.
    pub(crate) fn follow(&self, line: &str) -> Follow {
        let mut process = self.command(line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(Box::new(process.stdout.take().unwrap()) as Box<dyn Read + Send>);
        Follow { process, lines }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .args(line.split_whitespace());
        command
    }
}

/// A kubectl that keeps running, such as a watch.
pub(crate) struct Follow {
    process: Child,
    lines: BufReader<Box<dyn Read + Send>>,
}

impl Follow {
    /// The next line of its output.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Reads until a line contains all of these words.
    #[track_caller]
    pub(crate) fn until(&mut self, words: &[&str]) {
        let mut line = String::new();
        while !words.iter().all(|word| line.contains(word)) {
            line.clear();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "ended before {words:?}"
            );
        }
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a manifest to a file. Returns its path.
pub(crate) fn manifest(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A ReplicaSet of so many pods.
pub(crate) fn replica_set(name: &str, replicas: u32) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},
        "selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},
        "spec":{{"containers":[{{"name":"c","image":"nginx"}}]}}}}}}}}"#
    )
}
