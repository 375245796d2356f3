//! Streams into containers: exec, attach, port-forward.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::RuntimeFuture;
use crate::container::ContainerId;
use crate::sandbox::SandboxId;

/// Runs commands in containers and connects to them.
pub trait StreamService {
    /// Runs a command and collects its output, for probes and lifecycle hooks. A command that takes longer than
    /// `timeout` is killed, and the call fails with [`ErrorKind::DeadlineExceeded`](crate::ErrorKind).
    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: &'a [String],
        timeout: Duration,
    ) -> RuntimeFuture<'a, ExecOutput>;

    /// Runs a command with streams until it exits. Returns its exit code.
    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        request: ExecRequest,
        streams: Streams,
    ) -> RuntimeFuture<'a, i32>;

    /// Connects streams to the container's first process until it exits or the client leaves.
    fn attach<'a>(&'a self, id: &'a ContainerId, tty: bool, streams: Streams) -> RuntimeFuture<'a, ()>;

    /// Connects a stream to a port inside the sandbox until one side closes it.
    fn port_forward<'a>(
        &'a self,
        id: &'a SandboxId,
        port: u16,
        stream: Box<dyn ByteStream>,
    ) -> RuntimeFuture<'a, ()>;
}

/// The output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code.
    pub exit_code: i32,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

/// A command to run in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whether it has a terminal.
    pub tty: bool,
}

/// The streams of a command; those that the client did not request are `None`.
pub struct Streams {
    /// Read until its end, which is the end of the command's standard input.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Its standard output; with a terminal, all output.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Its standard error; `None` with a terminal.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// New sizes of the terminal.
    pub resize: Option<mpsc::Receiver<TerminalSize>>,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// A bidirectional stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams")
            .field("stdin", &self.stdin.is_some())
            .field("stdout", &self.stdout.is_some())
            .field("stderr", &self.stderr.is_some())
            .field("resize", &self.resize.is_some())
            .finish()
    }
}
