//! Bodies of requests: one message, or messages as they are sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

/// The body of a request. Each item is an encoded frame.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// One message; `None` once it was read.
    Single(Option<Bytes>),
    /// Messages until the sender is dropped.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Single(message) => Poll::Ready(message.take()),
            Self::Stream(receiver) => receiver.poll_recv(context),
        };
        next.map(|message| message.map(|message| Ok(Frame::data(message))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Single(None))
    }
}
