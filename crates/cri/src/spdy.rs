//! A client of `SPDY/3.1` as container runtimes serve it for exec and attach.
//!
//! Each of standard input, output, error, resize and status is a stream of one connection; the end of standard input is
//! a frame with FIN, which the WebSocket protocol before v5 cannot express.

mod handshake;

use std::io;

use serde::Deserialize;
use setpoint_container_runtime::stream::TerminalSize;
use setpoint_container_runtime::{Error, ErrorKind, Streams};
use setpoint_streaming::spdy::{Event, FrameReader, FrameWriter, HeaderBlock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// The streams, with their ids in the order in which they are opened.
const ERROR: u32 = 1;
const STDIN: u32 = 3;
const STDOUT: u32 = 5;
const STDERR: u32 = 7;
const RESIZE: u32 = 9;

/// How much is read at once.
const CHUNK_BYTES: usize = 32 << 10;

/// Frames that wait to be written; a full queue makes standard input wait.
const QUEUE_FRAMES: usize = 16;

/// Runs the streams of a command at this URL until it ends. Returns its exit code.
pub(crate) async fn run(url: &str, streams: Streams) -> Result<i32, Error> {
    let connection = handshake::upgrade(url).await.map_err(broken)?;
    Session::open(connection, requested_streams(&streams))
        .await
        .map_err(broken)?
        .run(streams)
        .await
}

struct Session {
    connection: TcpStream,
    /// The output streams and the status stream that the server has not ended.
    open: Vec<u32>,
}

/// The outcome of a command, as the server sends it on the error stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommandStatus {
    status: String,
    message: String,
    details: Details,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

impl Session {
    /// Opens the streams that the client requested.
    async fn open(
        mut connection: TcpStream,
        requested: impl Iterator<Item = (u32, &'static str)>,
    ) -> io::Result<Self> {
        let mut writer = FrameWriter::default();
        let (mut frames, mut open) = (Vec::new(), Vec::new());
        for (id, name) in requested {
            let headers = HeaderBlock(vec![("streamtype".to_owned(), name.to_owned())]);
            writer.syn_stream(id, &headers, &mut frames);
            open.push(id);
        }
        connection.write_all(&frames).await?;
        open.retain(|id| [ERROR, STDOUT, STDERR].contains(id));
        Ok(Self { connection, open })
    }

    async fn run(mut self, streams: Streams) -> Result<i32, Error> {
        let (frames, queue) = mpsc::channel(QUEUE_FRAMES);
        let (read, write) = self.connection.split();
        let mut output = Output {
            stdout: streams.stdout,
            stderr: streams.stderr,
            status: Vec::new(),
            open: self.open,
        };
        let input = async {
            tokio::join!(
                send_input(streams.stdin, frames.clone()),
                send_sizes(streams.resize, frames.clone()),
                write_frames(queue, write),
            );
            std::future::pending::<io::Result<()>>().await
        };
        let read_all = output.read_all(read, frames.clone());
        let ended = tokio::select! {
            ended = read_all => ended,
            ended = input => ended,
        };
        ended.map_err(broken)?;
        exit_code(&output.status)
    }
}

/// The ids and names of the streams that the client requested; that of the status is always there.
fn requested_streams(streams: &Streams) -> impl Iterator<Item = (u32, &'static str)> + use<> {
    let all = [
        (ERROR, "error", true),
        (STDIN, "stdin", streams.stdin.is_some()),
        (STDOUT, "stdout", streams.stdout.is_some()),
        (STDERR, "stderr", streams.stderr.is_some()),
        (RESIZE, "resize", streams.resize.is_some()),
    ];
    all.into_iter()
        .filter(|(_, _, is_requested)| *is_requested)
        .map(|(id, name, _)| (id, name))
}

/// What the server sends: output, and the status of the command.
struct Output {
    stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    status: Vec<u8>,
    open: Vec<u32>,
}

impl Output {
    /// Reads until the server has ended every stream or closed the connection.
    async fn read_all(
        &mut self,
        mut read: impl AsyncRead + Unpin,
        frames: mpsc::Sender<Vec<u8>>,
    ) -> io::Result<()> {
        let mut reader = FrameReader::default();
        let mut buffer = vec![0; CHUNK_BYTES];
        while !self.open.is_empty() {
            match read.read(&mut buffer).await {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                count => reader.push(&buffer[..count?]),
            }
            while let Some(event) = reader.next_event().map_err(io::Error::other)? {
                self.receive(event, &frames).await?;
            }
        }
        Ok(())
    }

    async fn receive(&mut self, event: Event, frames: &mpsc::Sender<Vec<u8>>) -> io::Result<()> {
        match event {
            Event::Data { id, bytes, is_last } => {
                self.write(id, &bytes).await?;
                if is_last {
                    self.open.retain(|open| *open != id);
                }
            }
            Event::Reset(id) => self.open.retain(|open| *open != id),
            Event::Ping(id) => {
                frames.send(frame(|writer, out| writer.ping(id, out))).await.ok();
            }
            Event::SynStream { .. } | Event::GoAway | Event::Ignored => {}
        }
        Ok(())
    }

    async fn write(&mut self, id: u32, data: &[u8]) -> io::Result<()> {
        let stream = match id {
            STDOUT => self.stdout.as_mut(),
            STDERR => self.stderr.as_mut(),
            ERROR => {
                self.status.extend_from_slice(data);
                return Ok(());
            }
            _ => None,
        };
        if let Some(stream) = stream {
            stream.write_all(data).await?;
            stream.flush().await?;
        }
        Ok(())
    }
}

/// One frame without headers.
fn frame(write: impl FnOnce(&mut FrameWriter, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut FrameWriter::default(), &mut bytes);
    bytes
}

async fn send_input(stdin: Option<Box<dyn AsyncRead + Send + Unpin>>, frames: mpsc::Sender<Vec<u8>>) {
    let Some(mut stdin) = stdin else { return };
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let read = stdin.read(&mut buffer).await.unwrap_or(0);
        let bytes = frame(|writer, out| match read {
            0 => writer.finish(STDIN, out),
            _ => writer.data(STDIN, &buffer[..read], out),
        });
        if frames.send(bytes).await.is_err() || read == 0 {
            return;
        }
    }
}

async fn send_sizes(sizes: Option<mpsc::Receiver<TerminalSize>>, frames: mpsc::Sender<Vec<u8>>) {
    let Some(mut sizes) = sizes else { return };
    while let Some(size) = sizes.recv().await {
        let text = format!("{{\"Width\":{},\"Height\":{}}}\n", size.width, size.height);
        let bytes = frame(|writer, out| writer.data(RESIZE, text.as_bytes(), out));
        if frames.send(bytes).await.is_err() {
            return;
        }
    }
}

async fn write_frames(mut queue: mpsc::Receiver<Vec<u8>>, mut write: impl AsyncWrite + Unpin) {
    while let Some(frame) = queue.recv().await {
        if write.write_all(&frame).await.is_err() {
            return;
        }
    }
}

/// The exit code in the status of a command (`v4.channel.k8s.io`).
fn exit_code(status: &[u8]) -> Result<i32, Error> {
    if status.is_empty() {
        return Err(Error::new(
            ErrorKind::Other,
            "the connection to the command was lost",
        ));
    }
    let parsed: CommandStatus =
        serde_json::from_slice(status).map_err(|error| Error::new(ErrorKind::Other, error.to_string()))?;
    if parsed.status == "Success" {
        return Ok(0);
    }
    let cause = parsed
        .details
        .causes
        .iter()
        .find(|cause| cause.reason == "ExitCode");
    cause
        .and_then(|cause| cause.message.parse().ok())
        .ok_or_else(|| Error::new(ErrorKind::Other, parsed.message))
}

fn broken(error: io::Error) -> Error {
    Error::new(ErrorKind::Other, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: &str, expected: Result<i32, &str>) {
        let code = exit_code(status.as_bytes()).map_err(|error| error.message);
        assert_eq!(code, expected.map_err(str::to_owned));
    }

    #[test]
    fn the_status_of_a_command_has_its_exit_code() {
        check(r#"{"metadata":{},"status":"Success"}"#, Ok(0));
        check(
            r#"{"status":"Failure","message":"command terminated with non-zero exit code","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"5"}]}}"#,
            Ok(5),
        );
        check(
            r#"{"status":"Failure","message":"no such container"}"#,
            Err("no such container"),
        );
        check("", Err("the connection to the command was lost"));
    }
}
