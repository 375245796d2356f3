//! A Setpoint server as a child process: started empty, killed on drop, with its log in a file.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::Identity;
use tempfile::TempDir;

use crate::etcd::Etcd;
use crate::wire::Endpoint;

/// Flags for the API server only, as the recordings were made: no controllers and no nodes.
pub const API_ONLY: &[&str] = &["--controllers", "none", "--nodes", "0"];

/// The token of `admin`, the user of the recordings.
const TOKEN: &str = "recordings";
const TOKENS: &str = "tokens.csv";

/// The key that signs service account tokens: RSA, as that of the recorded server. Only tests use it.
const SIGNING_KEY: &str = include_str!("../../auth/src/keys/testdata/rsa.pem");

/// A running `setpoint up`.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// The etcd that stores its objects.
    _etcd: Option<Etcd>,
    pub dir: TempDir,
    /// Held open, so that the process's writes do not fail.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts an empty server and waits until it serves.
    pub fn start(program: &Path, flags: &[&str]) -> Result<Self> {
        Self::start_in(tempfile::tempdir()?, (program, flags), None)
    }

    /// Starts an empty server on an etcd of its own, if there is a program for that, and waits until it serves. The flags
    /// must not set where objects are stored.
    pub fn start_on(etcd: Option<&Path>, program: &Path, flags: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let etcd = etcd.map(|etcd| Etcd::start(etcd, dir.path())).transpose()?;
        let storage = match &etcd {
            Some(etcd) => vec!["--etcd-servers".to_owned(), etcd.url().to_owned()],
            None => vec!["--memory".to_owned()],
        };
        let storage = storage.iter().map(String::as_str);
        let flags: Vec<&str> = flags.iter().copied().chain(storage).collect();
        Self::start_in(dir, (program, &flags), etcd)
    }

    fn start_in(dir: TempDir, (program, flags): (&Path, &[&str]), etcd: Option<Etcd>) -> Result<Self> {
        let tokens = dir.path().join(TOKENS);
        fs::write(&tokens, format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
        let signing_key = dir.path().join("service-account.key");
        fs::write(&signing_key, SIGNING_KEY)?;
        let mut process = Command::new(program)
            .args([
                "up",
                "--runtime=simulated",
                // kube-apiserver, with which responses are compared, serves no metrics.
                "--metrics-api=false",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(dir.path())
            .arg("--token-auth-file")
            .arg(tokens)
            .arg("--service-account-signing-key-file")
            .arg(signing_key)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log(dir.path()))?)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut stdout = BufReader::new(process.stdout.take().context("the output is piped")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let server = Self {
            process,
            _etcd: etcd,
            dir,
            _stdout: stdout,
        };
        ensure!(line.contains("serves https://"), "{line}{}", server.log());
        Ok(server)
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The endpoint with the recordings' identity: user `admin`, by token.
    pub fn endpoint(&self) -> Result<Endpoint> {
        let mut connection = Kubeconfig::read(&self.kubeconfig())?.connection(None)?;
        connection.identity = Identity::Token(TOKEN.to_owned());
        Ok(Endpoint::new(&connection)?)
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The server's log so far.
    pub fn log(&self) -> String {
        let bytes = fs::read(log(self.dir.path())).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn log(dir: &Path) -> PathBuf {
    dir.join("log")
}
