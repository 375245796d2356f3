//! Exec and attach: the standard streams of a command, terminal sizes, and how it ended.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use crate::channel::{Channels, Encoding, MessageWriter, ResizeSink, Sink};
use crate::session::{
    Activity, ByteStream, ChannelEnd, ChannelWriter, Limits, OutgoingFrame, PIPE_BYTES, drive, queue, send,
    write_frames,
};
use crate::spdy::{self, FrameWriter, IncomingStream};
use crate::status::{ErrorFormat, Outcome};

/// The numbers of channels over WebSockets.
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
const ERROR: u32 = 3;

/// A negotiated protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol(pub(crate) Transport);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    WebSocket {
        encoding: Encoding,
        /// The version of the protocol; 1 if the client requested none.
        version: u8,
    },
    Spdy {
        version: u8,
    },
}

/// The streams that a client requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error, which a terminal does not have.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// The streams of a command; those that the client did not request are `None`.
#[derive(Default)]
pub struct Streams {
    /// What the client sends, until it closes its input.
    pub stdin: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Standard output.
    pub stdout: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Standard error.
    pub stderr: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// New sizes of the terminal.
    pub resize: Option<mpsc::Receiver<TerminalSize>>,
}

/// Runs a command with streams. It must have dropped them when it returns.
pub type Command<'a> =
    Box<dyn FnOnce(Streams) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> + Send + 'a>;

/// Serves one request on an upgraded connection. Returns when the command has ended, and the client has got its output,
/// or has left.
pub async fn serve(
    stream: Box<dyn ByteStream>,
    protocol: Protocol,
    options: Options,
    limits: Limits,
    command: Command<'_>,
) {
    match protocol.0 {
        Transport::WebSocket { encoding, version } => {
            serve_websocket(stream, (encoding, version), options, limits, command).await;
        }
        Transport::Spdy { version } => serve_spdy(stream, version, options, limits, command).await,
    }
}

async fn serve_websocket(
    stream: Box<dyn ByteStream>,
    (encoding, version): (Encoding, u8),
    options: Options,
    limits: Limits,
    command: Command<'_>,
) {
    let (reader, writer) = tokio::io::split(stream);
    let (outgoing, frames) = queue();
    let activity = Activity::default();
    let mut streams = Streams::default();
    let mut sinks: Vec<Sink> = (0..5).map(|_| Sink::Ignored).collect();
    if options.stdin {
        let (pipe, stdin) = tokio::io::duplex(PIPE_BYTES);
        sinks[0] = Sink::Bytes(pipe);
        streams.stdin = Some(Box::new(stdin));
    }
    if options.tty {
        let (sink, sizes) = ResizeSink::new();
        sinks[4] = Sink::Resize(sink);
        streams.resize = Some(sizes);
    }
    let open = |channel| Box::new(ChannelWriter::new(&outgoing, channel).0);
    streams.stdout = options.stdout.then(|| open(STDOUT) as _);
    streams.stderr = options.stderr.then(|| open(STDERR) as _);
    let channels = Channels::new(encoding, version >= 5, sinks);
    let read = channels.read(reader, outgoing.clone(), &activity);
    let write = write_frames(writer, frames, MessageWriter(encoding), &activity);
    let work = async {
        if version < 5 {
            // An empty message, by which the client knows that the connection is established.
            let channel = match (options.stdout, options.stderr) {
                (true, _) => STDOUT,
                (false, true) => STDERR,
                (false, false) => ERROR,
            };
            send(&outgoing, OutgoingFrame::Data(channel, Bytes::new())).await;
        }
        let outcome = command(streams).await;
        let status = outcome.encode(error_format(version));
        if !status.is_empty() {
            send(&outgoing, OutgoingFrame::Data(ERROR, status.into())).await;
        }
        send(&outgoing, OutgoingFrame::Close).await;
    };
    drive(read, write, work, (&activity, limits.idle)).await;
}

fn error_format(version: u8) -> ErrorFormat {
    match version {
        0..4 => ErrorFormat::Text,
        _ => ErrorFormat::Status,
    }
}

async fn serve_spdy(
    stream: Box<dyn ByteStream>,
    version: u8,
    options: Options,
    limits: Limits,
    command: Command<'_>,
) {
    let (reader, writer) = tokio::io::split(stream);
    let (outgoing, frames) = queue();
    let (opened, mut incoming) = mpsc::channel(1);
    let activity = Activity::default();
    let read = spdy::run(reader, outgoing.clone(), (opened, |_| Ok(())), &activity);
    let write = write_frames(writer, frames, FrameWriter::default(), &activity);
    let work = async {
        let collected = collect(&mut incoming, version, options);
        match tokio::time::timeout(limits.stream_creation, collected).await {
            Ok(Some(collected)) => collected.run(command, error_format(version)).await,
            Ok(None) => {}
            Err(_) => tracing::debug!("timed out waiting for client to create streams"),
        }
        send(&outgoing, OutgoingFrame::Close).await;
    };
    drive(read, write, work, (&activity, limits.idle)).await;
}

/// The streams of a SPDY connection, once the client has opened all of them.
#[derive(Default)]
struct CommandStreams {
    streams: Streams,
    error: Option<ChannelWriter>,
    ends: Vec<ChannelEnd>,
    /// Copies terminal sizes.
    resize: Option<(ResizeSink, tokio::io::DuplexStream)>,
}

/// Waits for the streams that the options name; `None` if the connection ends before.
async fn collect(
    incoming: &mut mpsc::Receiver<IncomingStream>,
    version: u8,
    options: Options,
) -> Option<CommandStreams> {
    let requested = [
        options.stdin,
        options.stdout,
        options.stderr,
        options.tty && version >= 3,
    ];
    let expected = 1 + requested.iter().filter(|is_requested| **is_requested).count();
    let mut collected = CommandStreams::default();
    while collected.ends.len() < expected {
        let stream = incoming.recv().await?;
        collected.add(stream, options.tty);
    }
    Some(collected)
}

impl CommandStreams {
    fn add(&mut self, stream: IncomingStream, tty: bool) {
        match stream.headers.value("streamtype") {
            "error" => self.error = Some(stream.writer),
            "stdin" => self.streams.stdin = Some(Box::new(stream.reader)),
            "stdout" => self.streams.stdout = Some(Box::new(stream.writer)),
            "stderr" => self.streams.stderr = Some(Box::new(stream.writer)),
            "resize" if tty => {
                let (sink, sizes) = ResizeSink::new();
                self.streams.resize = Some(sizes);
                self.resize = Some((sink, stream.reader));
            }
            other => {
                tracing::debug!(stream_type = other, "unexpected stream type");
                return;
            }
        }
        self.ends.push(stream.end);
    }

    async fn run(self, command: Command<'_>, format: ErrorFormat) {
        let command = command(self.streams);
        let outcome = match self.resize {
            None => command.await,
            Some((sink, reader)) => tokio::select! {
                outcome = command => outcome,
                never = copy_sizes(sink, reader) => match never {},
            },
        };
        if let Some(mut error) = self.error {
            let status = outcome.encode(format);
            if let Err(reason) = tokio::io::AsyncWriteExt::write_all(&mut error, &status).await {
                tracing::debug!(%reason, "client did not get the status of its command");
            }
        }
        for end in self.ends {
            end.finish().await;
        }
    }
}

/// Delivers terminal sizes as long as the command runs.
async fn copy_sizes(sink: ResizeSink, mut reader: impl AsyncRead + Unpin) -> std::convert::Infallible {
    let mut sink = Sink::Resize(sink);
    let mut buffer = [0; 512];
    while let Ok(count @ 1..) = tokio::io::AsyncReadExt::read(&mut reader, &mut buffer).await {
        sink.deliver(&buffer[..count]).await;
    }
    std::future::pending().await
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams")
            .field("stdin", &self.stdin.is_some())
            .field("stdout", &self.stdout.is_some())
            .field("stderr", &self.stderr.is_some())
            .field("resize", &self.resize.is_some())
            .finish()
    }
}
