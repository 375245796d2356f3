//! Streams of messages, from the server and to it.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
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
        let frame = next_frame(&mut self.body, &mut self.frames, Status::broken).await?;
        let decoded = frame.map(A::decode).transpose();
        decoded.map_err(|error| Status::new(Code::INTERNAL, error.to_string()))
    }
}

/// The bytes of the next message; `None` at the end of the stream, which must not be inside a message.
async fn next_frame<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    frames: &mut FrameReader,
    broken: impl Fn(B::Error) -> Status,
) -> Result<Option<Bytes>, Status> {
    loop {
        if let Some(frame) = frames.next_frame()? {
            return Ok(Some(frame));
        }
        let Some(received) = body.frame().await else {
            return frames.finish().map(|()| None);
        };
        match received.map_err(&broken)?.into_data() {
            Ok(data) => frames.push(&data),
            Err(trailers) => {
                let headers = trailers.into_trailers().unwrap_or_default();
                Status::from_headers(&headers).map_or(Ok(()), Status::into_result)?;
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

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    /// The messages of a stream with these bytes, and how it ended.
    #[track_caller]
    fn check(bytes: &[u8], expected: &[&[u8]], end: Result<(), Code>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut body = Full::new(Bytes::copy_from_slice(bytes));
        let (mut frames, mut messages) = (FrameReader::default(), Vec::new());
        let ended = runtime.block_on(async {
            while let Some(message) = next_frame(&mut body, &mut frames, |never| match never {}).await? {
                messages.push(message);
            }
            Ok::<_, Status>(())
        });
        assert_eq!(messages, expected);
        assert_eq!(ended.map_err(|status| status.code), end);
    }

    #[test]
    fn a_stream_that_ends_inside_a_message_has_not_ended_normally() {
        let both = [frame::encode(b"abc"), frame::encode(b"de")].concat();
        check(&both, &[b"abc", b"de"], Ok(()));
        check(&both[..both.len() - 1], &[b"abc"], Err(Code::INTERNAL));
        check(&both[..10], &[b"abc"], Err(Code::INTERNAL));
        check(&[], &[], Ok(()));
    }
}
