//! A cluster of one real process, for tests of programs that talk to one.

#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use tempfile::TempDir;

/// A running `setpoint up`, or another program that a test has started. It is killed when it is dropped.
#[derive(Debug)]
pub struct Program {
    process: Child,
}

/// A running `setpoint up` and where it keeps its things.
#[derive(Debug)]
pub struct Up {
    _program: Program,
    /// What else it says is not read, but it must be able to say it.
    _said: BufReader<ChildStdout>,
    dir: TempDir,
}

impl Program {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Self {
        let process = command.stdin(Stdio::null()).spawn();
        Self {
            process: process.expect("the program can be started"),
        }
    }

    /// What it says on standard error, where the command pipes it. Whoever takes it must read it.
    pub fn stderr(&mut self) -> Option<BufReader<ChildStderr>> {
        self.process.stderr.take().map(BufReader::new)
    }

    /// Asks it to end, waits until it has, and says whether it ended well.
    pub fn terminate(mut self) -> bool {
        let pid = self.process.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(
            asked.is_ok_and(|status| status.success()),
            "{pid} cannot be asked"
        );
        self.process.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended already needs no killing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Up {
    /// Starts the `setpoint` that was built beside another program, with all objects in memory, and waits until it
    /// serves. `None` where none was built, which is no excuse where everything is.
    pub fn beside(neighbour: &str, flags: &[&str]) -> Option<Self> {
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
        let dir = tempfile::tempdir().expect("there is room for a folder");
        let mut command = Command::new(program);
        command
            .args(["up", "--memory", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path())
            .args(flags)
            .stdout(Stdio::piped());
        let mut program = Program::start(&mut command);
        let mut line = String::new();
        let out = program.process.stdout.take().expect("its output is piped");
        let mut said = BufReader::new(out);
        let read = said.read_line(&mut line);
        assert!(read.is_ok() && line.contains("serves https://"), "{line:?}");
        Some(Self {
            _program: program,
            _said: said,
            dir,
        })
    }

    /// Where the kubeconfig lies.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Writes a file where kubectl can read it, and says where that is.
    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).expect("there is room for a file");
        path.display().to_string()
    }

    /// A kubeconfig of a service account, which may do what its roles allow and nothing else. `None` as for kubectl.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str) -> Option<PathBuf> {
        let token = self.kubectl(&format!("create token {account} -n {namespace}"))?;
        let own = std::fs::read_to_string(self.kubeconfig()).expect("the kubeconfig is there");
        let path = self.dir.path().join(format!("{namespace}-{account}"));
        std::fs::write(&path, own).expect("there is room for a file");
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

    /// A program that talks to this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.dir.path());
        command
    }

    /// What kubectl prints when it succeeds; `None` where there is no kubectl, which is no excuse where everything is.
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
            println!("SKIPPED: {program:?} is no kubectl");
            return None;
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(status.success(), "kubectl {line}: {}", text(&stderr));
        Some(text(&stdout))
    }
}
