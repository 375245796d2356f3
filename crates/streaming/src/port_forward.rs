//! Port-forward: connections to ports of a pod, each with a channel for data and one for errors.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, join_all};
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

use crate::channel::{Channels, Encoding, MessageWriter, Sink};
use crate::session::{
    Activity, ByteStream, ChannelEnd, ChannelWriter, FrameSender, Limits, OutgoingFrame, PIPE_BYTES, drive,
    queue, send, write_frames,
};
use crate::spdy::{self, FrameWriter, HeaderBlock, IncomingStream};
use crate::tunnel;

/// A negotiated protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol(pub(crate) Transport);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Pairs of channels, one for each port of the request.
    WebSocket { encoding: Encoding, ports: Vec<u16> },
    /// Pairs of streams, which the client opens as it accepts connections.
    Spdy,
    /// SPDY inside the messages of a WebSocket.
    Tunnel,
}

/// Connects a stream to a port of the pod, until one side closes it. Returns an error for the client.
pub type Forward =
    Arc<dyn Fn(u16, Box<dyn ByteStream>) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Serves one request on an upgraded connection. Returns when the client has left.
pub async fn serve(stream: Box<dyn ByteStream>, protocol: Protocol, limits: Limits, forward: Forward) {
    match protocol.0 {
        Transport::WebSocket { encoding, ports } => {
            serve_websocket(stream, (encoding, &ports), limits, &forward).await;
        }
        Transport::Spdy => serve_spdy(stream, limits, &forward).await,
        Transport::Tunnel => {
            let (inner, copied) = tunnel::open(stream, limits.idle);
            tokio::join!(copied, serve_spdy(Box::new(inner), limits, &forward));
        }
    }
}

async fn serve_websocket(
    stream: Box<dyn ByteStream>,
    (encoding, ports): (Encoding, &[u16]),
    limits: Limits,
    forward: &Forward,
) {
    let (reader, writer) = tokio::io::split(stream);
    let (outgoing, frames) = queue();
    let activity = Activity::default();
    let mut sinks = Vec::new();
    let mut connections = Vec::new();
    for (number, port) in (0_u32..).zip(ports) {
        let (pipe, reader) = tokio::io::duplex(PIPE_BYTES);
        sinks.extend([Sink::Bytes(pipe), Sink::Ignored]);
        let data = DataStream {
            reader,
            writer: ChannelWriter::new(&outgoing, 2 * number).0,
        };
        connections.push((2 * number, *port, data));
    }
    let channels = Channels::new(encoding, false, sinks);
    let read = channels.read(reader, outgoing.clone(), &activity);
    let write = write_frames(writer, frames, MessageWriter(encoding), &activity);
    let work = async {
        for (channel, port, _) in &connections {
            let port = Bytes::copy_from_slice(&port.to_le_bytes());
            send(&outgoing, OutgoingFrame::Data(*channel, port.clone())).await;
            send(&outgoing, OutgoingFrame::Data(channel + 1, port)).await;
        }
        let outgoing = &outgoing;
        join_all(connections.into_iter().map(|(channel, port, data)| async move {
            if let Err(message) = forward(port, Box::new(data)).await {
                send(outgoing, OutgoingFrame::Data(channel + 1, message.into())).await;
            }
        }))
        .await;
        send(outgoing, OutgoingFrame::Close).await;
    };
    drive(read, write, work, (&activity, limits.idle)).await;
}

async fn serve_spdy(stream: Box<dyn ByteStream>, limits: Limits, forward: &Forward) {
    let (reader, writer) = tokio::io::split(stream);
    let (outgoing, frames) = queue();
    let (opened, incoming) = mpsc::channel(1);
    let activity = Activity::default();
    let read = spdy::run(reader, outgoing.clone(), (opened, check_headers), &activity);
    let write = write_frames(writer, frames, FrameWriter::default(), &activity);
    let work = forward_pairs(incoming, limits, forward, outgoing);
    drive(read, write, work, (&activity, limits.idle)).await;
}

/// Checks the headers of a stream, which name a port and a type.
fn check_headers(headers: &HeaderBlock) -> Result<(), String> {
    let port = headers.value("port");
    if port.is_empty() {
        return Err("\"port\" header is required".to_owned());
    }
    match port.parse::<u16>() {
        Err(_) => return Err(format!("unable to parse {port:?} as a port")),
        Ok(0) => return Err(format!("port {port:?} must be > 0")),
        Ok(_) => {}
    }
    match headers.value("streamtype") {
        "data" | "error" => Ok(()),
        "" => Err("\"streamType\" header is required".to_owned()),
        other => Err(format!("invalid stream type {other:?}")),
    }
}

/// The streams of one connection, by their request id; complete with both.
#[derive(Debug, Default)]
struct Pair {
    data: Option<IncomingStream>,
    error: Option<IncomingStream>,
}

/// What becomes of a pair.
enum Step {
    /// Its connection has ended.
    Ended,
    /// The time to complete the pair of this request id is over.
    Expired(String),
}

async fn forward_pairs(
    mut incoming: mpsc::Receiver<IncomingStream>,
    limits: Limits,
    forward: &Forward,
    outgoing: FrameSender,
) {
    let mut pairs: HashMap<String, Pair> = HashMap::new();
    let mut steps: FuturesUnordered<Pin<Box<dyn Future<Output = Step> + Send + '_>>> =
        FuturesUnordered::new();
    loop {
        tokio::select! {
            stream = incoming.recv() => {
                let Some(stream) = stream else { break };
                let id = request_id(&stream);
                let pair = pairs.entry(id.clone()).or_default();
                if pair.data.is_none() && pair.error.is_none() {
                    let (id, timeout) = (id.clone(), limits.stream_creation);
                    steps.push(Box::pin(async move {
                        tokio::time::sleep(timeout).await;
                        Step::Expired(id)
                    }));
                }
                pair.add(stream);
                if pair.data.is_some() && pair.error.is_some()
                    && let Some(pair) = pairs.remove(&id)
                {
                    steps.push(Box::pin(forward_pair(pair, forward, outgoing.clone())));
                }
            }
            Some(step) = steps.next() => if let Step::Expired(id) = step
                && let Some(pair) = pairs.remove(&id)
            {
                tracing::debug!(id, "timed out waiting for streams");
                pair.reject("timed out waiting for streams").await;
            },
        }
    }
}

/// The request id of a stream. Old clients send none: their streams of one connection have consecutive odd numbers.
fn request_id(stream: &IncomingStream) -> String {
    match (
        stream.headers.value("requestid"),
        stream.headers.value("streamtype"),
    ) {
        ("", "data") => stream.id.saturating_sub(2).to_string(),
        ("", _) => stream.id.to_string(),
        (id, _) => id.to_owned(),
    }
}

impl Pair {
    fn add(&mut self, stream: IncomingStream) {
        let slot = match stream.headers.value("streamtype") {
            "data" => &mut self.data,
            _ => &mut self.error,
        };
        match slot {
            None => *slot = Some(stream),
            Some(_) => tracing::debug!(id = stream.id, "stream is already assigned"),
        }
    }

    async fn reject(self, message: &str) {
        if let Some(mut error) = self.error {
            write_error(&mut error.writer, message).await;
            error.end.finish().await;
        }
        if let Some(data) = self.data {
            data.end.finish().await;
        }
    }
}

async fn write_error(writer: &mut ChannelWriter, message: &str) {
    if let Err(reason) = writer.write_all(message.as_bytes()).await {
        tracing::debug!(%reason, "client did not get an error");
    }
}

async fn forward_pair(pair: Pair, forward: &Forward, outgoing: FrameSender) -> Step {
    let (Some(data), Some(mut error)) = (pair.data, pair.error) else {
        return Step::Ended;
    };
    let port = data.headers.value("port").parse().unwrap_or_default();
    let (id, end): (u32, ChannelEnd) = (data.id, data.end);
    let stream = DataStream {
        reader: data.reader,
        writer: data.writer,
    };
    match forward(port, Box::new(stream)).await {
        Ok(()) => end.finish().await,
        Err(message) => {
            write_error(&mut error.writer, &message).await;
            send(&outgoing, OutgoingFrame::Reset(id)).await;
        }
    }
    error.end.finish().await;
    Step::Ended
}

/// Both directions of a channel.
#[derive(Debug)]
struct DataStream {
    reader: DuplexStream,
    writer: ChannelWriter,
}

impl AsyncRead for DataStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

impl AsyncWrite for DataStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}
