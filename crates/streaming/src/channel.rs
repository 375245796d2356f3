//! The channel protocols over WebSockets: each message begins with the number of its channel.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use crate::event_reader::EventReader;
use crate::remote_command::TerminalSize;
use crate::session::{Activity, Encode, FrameSender, OutgoingFrame, send};
use crate::websocket::{self, Event, Opcode};

/// The channel of a message that closes another one, whose number follows; since v5.
const CLOSE_CHANNEL: u8 = 255;
/// Maximum length of a message in base64, which is decoded as a whole.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum bytes of an incomplete terminal size.
const MAX_RESIZE_BYTES: usize = 4096;

/// How the bytes of messages are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Binary messages; the first byte is the channel.
    Binary,
    /// Text messages; the first character is the channel as a digit, the others are base64.
    Base64,
}

/// What receives the messages of a channel.
#[derive(Debug)]
pub(crate) enum Sink {
    /// Nothing.
    Ignored,
    /// A reader of bytes, until it or the client closes the channel.
    Bytes(DuplexStream),
    /// The receiver of terminal sizes.
    Resize(ResizeSink),
}

/// Parses terminal sizes, which are JSON objects one after the other.
#[derive(Debug)]
pub(crate) struct ResizeSink {
    bytes: Vec<u8>,
    sizes: mpsc::Sender<TerminalSize>,
}

#[derive(Deserialize)]
struct Size {
    #[serde(rename = "Width", default)]
    width: u16,
    #[serde(rename = "Height", default)]
    height: u16,
}

/// The client's side of a WebSocket's channels.
#[derive(Debug)]
pub(crate) struct Channels {
    encoding: Encoding,
    /// Whether the client can close a channel.
    closable: bool,
    /// By the number of the channel.
    sinks: Vec<Sink>,
    /// The channel of the current message, once it is known.
    current: Option<u8>,
    /// The current message in base64.
    text: Vec<u8>,
}

/// Encodes frames as messages.
#[derive(Debug)]
pub(crate) struct MessageWriter(pub(crate) Encoding);

// === impl Sink ===

impl Sink {
    /// Delivers bytes. Those of a channel whose reader is gone are dropped.
    pub(crate) async fn deliver(&mut self, bytes: &[u8]) {
        match self {
            Self::Ignored => {}
            Self::Bytes(pipe) => {
                if pipe.write_all(bytes).await.is_err() {
                    *self = Self::Ignored;
                }
            }
            Self::Resize(sink) => sink.deliver(bytes),
        }
    }
}

// === impl ResizeSink ===

impl ResizeSink {
    pub(crate) fn new() -> (Self, mpsc::Receiver<TerminalSize>) {
        let (sizes, receiver) = mpsc::channel(16);
        let bytes = Vec::new();
        (Self { bytes, sizes }, receiver)
    }

    /// Parses what is complete. A size is dropped while the queue of sizes is full: the command does not read them.
    fn deliver(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let mut sizes = serde_json::Deserializer::from_slice(&self.bytes).into_iter::<Size>();
        let mut end = 0;
        let mut is_malformed = false;
        for size in sizes.by_ref() {
            match size {
                Ok(Size { width, height }) => {
                    if self.sizes.try_send(TerminalSize { width, height }).is_err() {
                        tracing::debug!("terminal size is dropped");
                    }
                }
                Err(error) => {
                    is_malformed = !error.is_eof();
                    break;
                }
            }
            end += 1;
        }
        let consumed = sizes.byte_offset();
        self.bytes.drain(..consumed);
        if is_malformed || self.bytes.len() > MAX_RESIZE_BYTES {
            tracing::debug!(sizes = end, "terminal size is malformed");
            self.bytes.clear();
        }
    }
}

// === impl Channels ===

impl Channels {
    pub(crate) fn new(encoding: Encoding, closable: bool, sinks: Vec<Sink>) -> Self {
        Self {
            encoding,
            closable,
            sinks,
            current: None,
            text: Vec::new(),
        }
    }

    /// Handles the client's frames until it closes the connection.
    pub(crate) async fn read(
        mut self,
        reader: impl AsyncRead + Unpin,
        outgoing: FrameSender,
        activity: &Activity,
    ) -> io::Result<()> {
        let mut events = EventReader::new(reader);
        while let Some(event) = events.next_event(activity).await? {
            match event {
                Event::Data {
                    is_first,
                    is_last,
                    bytes,
                } => self.receive(is_first, is_last, &bytes).await?,
                Event::Ping(payload) => send(&outgoing, OutgoingFrame::Pong(payload)).await,
                Event::Close => {
                    send(&outgoing, OutgoingFrame::Close).await;
                    break;
                }
            }
        }
        Ok(())
    }

    async fn receive(&mut self, is_first: bool, is_last: bool, bytes: &[u8]) -> io::Result<()> {
        if is_first {
            self.current = None;
            self.text.clear();
        }
        if self.encoding == Encoding::Base64 {
            return self.receive_text(is_last, bytes).await;
        }
        let mut bytes = bytes;
        let channel = match (self.current, bytes) {
            (Some(channel), _) => channel,
            (None, []) => return Ok(()),
            (None, [channel, rest @ ..]) => {
                bytes = rest;
                *self.current.insert(*channel)
            }
        };
        self.deliver(channel, bytes).await;
        Ok(())
    }

    async fn receive_text(&mut self, is_last: bool, bytes: &[u8]) -> io::Result<()> {
        if self.text.len() + bytes.len() > MAX_TEXT_BYTES {
            return Err(io::Error::other("message is too long"));
        }
        self.text.extend_from_slice(bytes);
        if !is_last {
            return Ok(());
        }
        let text = std::mem::take(&mut self.text);
        if let Some((channel, text)) = text.split_first() {
            let bytes = STANDARD.decode(text).map_err(io::Error::other)?;
            self.deliver(channel.wrapping_sub(b'0'), &bytes).await;
        }
        Ok(())
    }

    async fn deliver(&mut self, channel: u8, bytes: &[u8]) {
        if channel == CLOSE_CHANNEL && self.closable {
            let closed = bytes.first().map(|channel| usize::from(*channel));
            if let Some(sink) = closed.and_then(|channel| self.sinks.get_mut(channel)) {
                *sink = Sink::Ignored;
            }
            return;
        }
        if let Some(sink) = self.sinks.get_mut(usize::from(channel)) {
            sink.deliver(bytes).await;
        }
    }
}

// === impl MessageWriter ===

impl Encode for MessageWriter {
    fn encode(&mut self, frame: &OutgoingFrame, out: &mut Vec<u8>) {
        match frame {
            OutgoingFrame::Data(channel, bytes) => match self.0 {
                Encoding::Binary => {
                    websocket::write_head(Opcode::Binary, bytes.len() + 1, out);
                    out.push(*channel as u8);
                    out.extend_from_slice(bytes);
                }
                Encoding::Base64 => {
                    let text = format!("{channel}{}", STANDARD.encode(bytes));
                    websocket::write(Opcode::Text, text.as_bytes(), out);
                }
            },
            OutgoingFrame::Pong(payload) => websocket::write(Opcode::Pong, payload, out),
            OutgoingFrame::Close => websocket::write_close(out),
            // WebSocket channels are open as long as the connection.
            OutgoingFrame::Finish(_) | OutgoingFrame::Accept(_) | OutgoingFrame::Reset(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &[(u16, u16)]) {
        let (mut sink, mut receiver) = ResizeSink::new();
        for piece in pieces {
            sink.deliver(piece.as_bytes());
        }
        let mut sizes = Vec::new();
        while let Ok(size) = receiver.try_recv() {
            sizes.push((size.width, size.height));
        }
        assert_eq!(sizes, expected);
    }

    #[test]
    fn terminal_sizes_are_parsed_however_they_are_cut() {
        check(&["{\"Width\":80,\"Height\":24}\n"], &[(80, 24)]);
        check(
            &["{\"Width\":80,", "\"Height\":24}{\"Width\":1,\"Height\":2}"],
            &[(80, 24), (1, 2)],
        );
        check(&["nonsense", "{\"Width\":1,\"Height\":2}"], &[(1, 2)]);
        check(&["{\"Width\":-1}"], &[]);
    }
}
