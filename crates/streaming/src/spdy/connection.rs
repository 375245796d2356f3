//! A connection: delivers the client's data to its streams.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, DuplexStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::header_block::HeaderBlock;
use super::reader::{Event, FrameReader};
use super::writer::FrameWriter;
use crate::channel::Sink;
use crate::session::{
    Activity, ChannelEnd, ChannelWriter, Encode, FrameSender, OutgoingFrame, PIPE_BYTES, READ_BYTES, send,
};

/// Maximum number of streams that a client has open, and of those that the server has not ended.
const MAX_STREAMS: usize = 1000;
/// The status of a reset that rejects a stream.
const REJECTED: u32 = 3;

/// A stream that the client has opened.
#[derive(Debug)]
pub(crate) struct IncomingStream {
    pub(crate) id: u32,
    pub(crate) headers: HeaderBlock,
    /// What the client sends.
    pub(crate) reader: DuplexStream,
    pub(crate) writer: ChannelWriter,
    pub(crate) end: ChannelEnd,
}

/// Checks the headers of a stream before it is accepted.
pub(crate) type Check = fn(&HeaderBlock) -> Result<(), String>;

/// Handles the client's frames until it closes the connection. Streams that it opens go to `opened`.
pub(crate) async fn run(
    mut reader: impl AsyncRead + Unpin,
    outgoing: FrameSender,
    (opened, check): (mpsc::Sender<IncomingStream>, Check),
    activity: &Activity,
) -> io::Result<()> {
    let mut connection = Connection {
        outgoing,
        opened,
        check,
        sinks: HashMap::new(),
        permits: Arc::new(Semaphore::new(MAX_STREAMS)),
    };
    let mut frames = FrameReader::default();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = reader.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        activity.report();
        frames.push(&buffer[..count]);
        while let Some(event) = frames.next_event().map_err(io::Error::other)? {
            connection.handle(event).await?;
        }
    }
}

struct Connection {
    outgoing: FrameSender,
    opened: mpsc::Sender<IncomingStream>,
    check: Check,
    /// The streams on which the client may send.
    sinks: HashMap<u32, Sink>,
    /// Limits the streams that the server has not ended. A stream that the client opens with FIN has no sink.
    permits: Arc<Semaphore>,
}

impl Connection {
    async fn handle(&mut self, event: Event) -> io::Result<()> {
        match event {
            Event::SynStream { id, headers, is_last } => self.open(id, headers, is_last).await?,
            Event::Data { id, bytes, is_last } => {
                if let Some(sink) = self.sinks.get_mut(&id) {
                    sink.deliver(&bytes).await;
                }
                if is_last {
                    self.sinks.remove(&id);
                }
            }
            Event::Reset(id) => {
                self.sinks.remove(&id);
            }
            // A client's pings have odd numbers; others are responses.
            Event::Ping(id) if id % 2 == 1 => {
                send(&self.outgoing, OutgoingFrame::Pong(id.to_be_bytes().to_vec())).await;
            }
            Event::Ping(_) | Event::GoAway | Event::Ignored => {}
        }
        Ok(())
    }

    /// The permit for a stream with these headers; `Err` is why it is rejected.
    fn accept(&self, headers: &HeaderBlock) -> Result<OwnedSemaphorePermit, String> {
        (self.check)(headers)?;
        let permit = self.permits.clone().try_acquire_owned().ok();
        let permit = permit.filter(|_| self.sinks.len() < MAX_STREAMS);
        permit.ok_or_else(|| "too many streams are open".to_owned())
    }

    async fn open(&mut self, id: u32, headers: HeaderBlock, is_last: bool) -> io::Result<()> {
        if id.is_multiple_of(2) || self.sinks.contains_key(&id) {
            return Err(io::Error::other("number of a new stream is invalid"));
        }
        let permit = match self.accept(&headers) {
            Ok(permit) => permit,
            Err(reason) => {
                tracing::debug!(%reason, "stream is rejected");
                send(&self.outgoing, OutgoingFrame::Reset(id)).await;
                return Ok(());
            }
        };
        let (pipe, reader) = tokio::io::duplex(PIPE_BYTES);
        if !is_last {
            self.sinks.insert(id, Sink::Bytes(pipe));
        }
        send(&self.outgoing, OutgoingFrame::Accept(id)).await;
        let (writer, end) = ChannelWriter::new(&self.outgoing, id);
        let end = end.holding(permit);
        let stream = IncomingStream {
            id,
            headers,
            reader,
            writer,
            end,
        };
        if self.opened.send(stream).await.is_err() {
            tracing::debug!(id, "stream was opened after the end of the request");
        }
        Ok(())
    }
}

impl Encode for FrameWriter {
    fn encode(&mut self, frame: &OutgoingFrame, out: &mut Vec<u8>) {
        match frame {
            OutgoingFrame::Data(id, bytes) => self.data(*id, bytes, out),
            OutgoingFrame::Finish(id) => self.finish(*id, out),
            OutgoingFrame::Accept(id) => self.syn_reply(*id, out),
            OutgoingFrame::Reset(id) => self.reset(*id, REJECTED, out),
            OutgoingFrame::Pong(id) => {
                if let Ok(id) = id.as_slice().try_into() {
                    self.ping(u32::from_be_bytes(id), out);
                }
            }
            OutgoingFrame::Close => self.go_away(0, out),
        }
    }
}
