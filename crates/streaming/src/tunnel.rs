//! A stream of bytes inside the binary messages of a WebSocket, whose boundaries have no meaning.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

use crate::ByteStream;
use crate::event_reader::EventReader;
use crate::session::{
    Activity, Encode, FrameSender, OutgoingFrame, PIPE_BYTES, READ_BYTES, drive, queue, send, write_frames,
};
use crate::websocket::{self, Event, Opcode};

/// The inner stream, and the future that copies between it and the WebSocket.
pub(crate) fn open(
    websocket: Box<dyn ByteStream>,
    idle: Duration,
) -> (DuplexStream, impl Future<Output = ()> + Send) {
    let (inner, outer) = tokio::io::duplex(PIPE_BYTES);
    (inner, copy(websocket, outer, idle))
}

async fn copy(websocket: Box<dyn ByteStream>, inner: DuplexStream, idle: Duration) {
    let (reader, writer) = tokio::io::split(websocket);
    let (inner_reader, inner_writer) = tokio::io::split(inner);
    let (outgoing, frames) = queue();
    let activity = Activity::default();
    let read = read_messages(reader, inner_writer, outgoing.clone(), &activity);
    let write = write_frames(writer, frames, Messages, &activity);
    let work = send_bytes(inner_reader, outgoing);
    drive(read, write, work, (&activity, idle)).await;
}

async fn read_messages(
    reader: impl AsyncRead + Unpin,
    mut inner: impl AsyncWrite + Unpin,
    outgoing: FrameSender,
    activity: &Activity,
) -> io::Result<()> {
    let mut events = EventReader::new(reader);
    while let Some(event) = events.next_event(activity).await? {
        match event {
            Event::Data { bytes, .. } => inner.write_all(&bytes).await?,
            Event::Ping(payload) => send(&outgoing, OutgoingFrame::Pong(payload)).await,
            Event::Close => break,
        }
    }
    Ok(())
}

async fn send_bytes(mut inner: impl AsyncRead + Unpin, outgoing: FrameSender) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = inner.read(&mut buffer).await {
        let bytes = Bytes::copy_from_slice(&buffer[..count]);
        send(&outgoing, OutgoingFrame::Data(0, bytes)).await;
    }
    send(&outgoing, OutgoingFrame::Close).await;
}

/// Encodes bytes as binary messages.
struct Messages;

impl Encode for Messages {
    fn encode(&mut self, frame: &OutgoingFrame, out: &mut Vec<u8>) {
        match frame {
            OutgoingFrame::Data(_, bytes) => websocket::write(Opcode::Binary, bytes, out),
            OutgoingFrame::Pong(payload) => websocket::write(Opcode::Pong, payload, out),
            OutgoingFrame::Close => websocket::write_close(out),
            OutgoingFrame::Finish(_) | OutgoingFrame::Accept(_) | OutgoingFrame::Reset(_) => {}
        }
    }
}
