//! Streams into simulated containers: a small shell for exec, the log for attach, an echo for port-forward.

use std::time::Duration;

use setpoint_container_runtime::stream::ByteStream;
use setpoint_container_runtime::{
    ContainerId, Error, ErrorKind, ExecOutput, ExecRequest, RuntimeFuture, SandboxId, StreamService, Streams,
};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::shell::{CommandInput, CommandResult, run};
use super::state::not_found;
use super::{SimulatedRuntime, ready};

/// A command reads at most this much of its standard input.
const MAX_STDIN_BYTES: u64 = 1 << 20;

/// A line of standard input has at most this length.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What a stream needs to know of a container.
struct Target {
    env: Vec<(String, String)>,
    log: String,
    exec_exit_code: i32,
}

impl StreamService for SimulatedRuntime {
    fn exec_sync<'a>(
        &'a self,
        id: &'a ContainerId,
        command: &'a [String],
        _: Duration,
    ) -> RuntimeFuture<'a, ExecOutput> {
        ready(self.target(id).map(|target| {
            // Probes and hooks name programs that a simulated container does not have.
            let result = run(
                command,
                CommandInput {
                    stdin: "",
                    env: &target.env,
                },
            );
            ExecOutput {
                exit_code: target.exec_exit_code,
                stdout: result.stdout.into_bytes(),
                stderr: Vec::new(),
            }
        }))
    }

    fn exec<'a>(
        &'a self,
        id: &'a ContainerId,
        request: ExecRequest,
        streams: Streams,
    ) -> RuntimeFuture<'a, i32> {
        Box::pin(async move {
            let target = self.target(id)?;
            self.pass(self.simulation.command_start).await;
            execute(target, &request, streams)
                .await
                .map_err(|error| failed(&error))
        })
    }

    fn attach<'a>(&'a self, id: &'a ContainerId, _: bool, streams: Streams) -> RuntimeFuture<'a, ()> {
        Box::pin(async move {
            let target = self.target(id)?;
            self.pass(self.simulation.command_start).await;
            attach(target, streams).await.map_err(|error| failed(&error))
        })
    }

    fn port_forward<'a>(
        &'a self,
        id: &'a SandboxId,
        _: u16,
        stream: Box<dyn ByteStream>,
    ) -> RuntimeFuture<'a, ()> {
        let exists = self.state.lock().sandbox(id).is_some();
        Box::pin(async move {
            if !exists {
                return Err(not_found("sandbox", &id.0));
            }
            let (mut reader, mut writer) = tokio::io::split(stream);
            let copied = tokio::io::copy(&mut reader, &mut writer).await;
            copied.map_err(|error| failed(&error))?;
            writer.shutdown().await.map_err(|error| failed(&error))
        })
    }
}

impl SimulatedRuntime {
    fn target(&self, id: &ContainerId) -> Result<Target, Error> {
        let state = self.state.lock();
        let container = state
            .find_container(id)
            .ok_or_else(|| not_found("container", &id.0))?;
        if !container.is_running(self.clock.now()) {
            let message = format!("container {:?} is not running", id.0);
            return Err(Error::new(ErrorKind::Other, message));
        }
        Ok(Target {
            env: container.env.clone(),
            log: container.rules.log.clone().unwrap_or_default(),
            exec_exit_code: container.rules.exec_exit_code,
        })
    }
}

/// Runs a command; a shell without arguments runs each line as it comes.
async fn execute(target: Target, request: &ExecRequest, mut streams: Streams) -> std::io::Result<i32> {
    let is_shell = matches!(request.command.as_slice(), [shell] if shell.ends_with("sh"));
    let Some(stdin) = streams.stdin.take() else {
        let result = run(
            &request.command,
            CommandInput {
                stdin: "",
                env: &target.env,
            },
        );
        return finish(&mut streams, result).await;
    };
    if is_shell {
        return interactive(&target, BufReader::new(stdin), &mut streams).await;
    }
    let mut input = String::new();
    let mut stdin = stdin.take(MAX_STDIN_BYTES);
    if request.command.first().is_some_and(|name| name.ends_with("cat")) || request.command.len() > 2 {
        stdin.read_to_string(&mut input).await?;
    }
    let result = run(
        &request.command,
        CommandInput {
            stdin: &input,
            env: &target.env,
        },
    );
    finish(&mut streams, result).await
}

async fn interactive(
    target: &Target,
    mut stdin: BufReader<Box<dyn tokio::io::AsyncRead + Send + Unpin>>,
    streams: &mut Streams,
) -> std::io::Result<i32> {
    let mut exit_code = 0;
    while let Some(line) = next_line(&mut stdin).await? {
        let line = String::from_utf8_lossy(&line).into_owned();
        let command = ["sh".to_owned(), "-c".to_owned(), line.clone()];
        let result = run(
            &command,
            CommandInput {
                stdin: "",
                env: &target.env,
            },
        );
        exit_code = finish(streams, result).await?;
        if line.trim_start().starts_with("exit") {
            break;
        }
    }
    Ok(exit_code)
}

/// Writes the output of a command. Returns its exit code.
async fn finish(streams: &mut Streams, result: CommandResult) -> std::io::Result<i32> {
    write(&mut streams.stdout, result.stdout.as_bytes()).await?;
    match &mut streams.stderr {
        None => write(&mut streams.stdout, result.stderr.as_bytes()).await?,
        stderr => write(stderr, result.stderr.as_bytes()).await?,
    }
    Ok(result.exit_code)
}

/// Writes the log, then what the client sends, until the client leaves.
async fn attach(target: Target, mut streams: Streams) -> std::io::Result<()> {
    write(&mut streams.stdout, target.log.as_bytes()).await?;
    let Some(stdin) = streams.stdin.take() else {
        return std::future::pending().await;
    };
    let mut stdin = BufReader::new(stdin);
    while let Some(mut line) = next_line(&mut stdin).await? {
        line.push(b'\n');
        write(&mut streams.stdout, &line).await?;
    }
    Ok(())
}

/// The next line without its end; `None` at the end of the stream. A longer one is cut: its length is the client's choice.
async fn next_line(stdin: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = stdin.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    Ok((read > 0).then_some(line))
}

async fn write(stream: &mut Option<Box<dyn AsyncWrite + Send + Unpin>>, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(stream) = stream {
        stream.write_all(bytes).await?;
        stream.flush().await?;
    }
    Ok(())
}

fn failed(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Other, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_that_never_ends_is_cut_into_lines() {
        let long = vec![b'x'; MAX_LINE_BYTES as usize + 1];
        let input = [b"\xff first\r\n", long.as_slice(), b"\nlast"].concat();
        let (mut stdin, mut lengths) = (BufReader::new(input.as_slice()), Vec::new());
        while let Some(line) = next_line(&mut stdin).await.unwrap() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [7, MAX_LINE_BYTES as usize, 1, 4]);
    }
}
