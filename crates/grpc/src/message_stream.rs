//! Streams of messages, from the server and to it.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use prost::Message;
use tokio::sync::mpsc;

use crate::frame::{self, FrameReader};
use crate::{Code, Status};

/// A stream of messages from the server.
#[derive(Debug)]
pub struct MessageStream {
    body: Incoming,
    frames: FrameReader,
}

/// Sends messages to the server. Dropping it ends the request, but not the responses.
#[derive(Debug)]
pub struct MessageSender {
    pub(crate) messages: mpsc::Sender<Bytes>,
}

// === impl MessageStream ===

impl MessageStream {
    pub(crate) fn new(body: Incoming) -> Self {
        Self {
            body,
            frames: FrameReader::default(),
        }
    }

    /// The next message; `None` at the end of the stream. Cancel-safe.
    pub async fn next_message<A: Message + Default>(&mut self) -> Result<Option<A>, Status> {
        loop {
            if let Some(frame) = self.frames.next_frame()? {
                let decoded = A::decode(frame);
                return decoded
                    .map(Some)
                    .map_err(|error| Status::new(Code::INTERNAL, error.to_string()));
            }
            let Some(received) = self.body.frame().await else {
                return Ok(None);
            };
            match received.map_err(Status::broken)?.into_data() {
                Ok(data) => self.frames.push(&data),
                Err(trailers) => {
                    let headers = trailers.into_trailers().unwrap_or_default();
                    Status::from_headers(&headers).map_or(Ok(()), Status::into_result)?;
                }
            }
        }
    }
}

// === impl MessageSender ===

impl MessageSender {
    /// Queues a message. Fails once the stream has ended.
    pub async fn send<Q: Message>(&self, message: &Q) -> Result<(), Status> {
        let frame = frame::encode(&message.encode_to_vec());
        let sent = self.messages.send(frame).await;
        sent.map_err(|_| Status::new(Code::UNAVAILABLE, "the stream has ended"))
    }
}
