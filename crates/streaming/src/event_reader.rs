//! [`EventReader`]: the frames of a WebSocket's client, from its connection.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::session::{Activity, READ_BYTES};
use crate::websocket::{Event, FrameReader};

/// Reads frames from a connection.
pub(crate) struct EventReader<R> {
    reader: R,
    frames: FrameReader,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> EventReader<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self {
            reader,
            frames: FrameReader::default(),
            buffer: vec![0; READ_BYTES],
        }
    }

    /// The next event; `None` at the end of the connection. What is received is reported as activity.
    pub(crate) async fn next_event(&mut self, activity: &Activity) -> io::Result<Option<Event>> {
        loop {
            if let Some(event) = self.frames.next_event().map_err(io::Error::other)? {
                return Ok(Some(event));
            }
            let count = self.reader.read(&mut self.buffer).await?;
            if count == 0 {
                return Ok(None);
            }
            activity.report();
            self.frames.push(&self.buffer[..count]);
        }
    }
}
