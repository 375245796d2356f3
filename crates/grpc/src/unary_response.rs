//! The response to a unary call: one message, then the status in the trailers.

use std::pin::pin;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::frame::FrameReader;
use crate::{Code, Status};

/// Reads the message of a unary response. A body that is larger than the largest message is not read further: its length is
/// the server's choice.
pub(crate) async fn read_message<B: Body<Data = Bytes>>(
    body: B,
    broken: impl Fn(B::Error) -> Status,
) -> Result<Bytes, Status> {
    let mut body = pin!(body);
    let mut frames = FrameReader::default();
    let mut message = None;
    let mut status = None;
    while let Some(received) = body.frame().await {
        match received.map_err(&broken)?.into_data() {
            Ok(data) => {
                frames.push(&data);
                if message.is_none() {
                    message = frames.next_frame()?;
                }
                if message.is_some() && !frames.is_empty() {
                    let text = "the response has more than one message";
                    return Err(Status::new(Code::INTERNAL, text));
                }
            }
            Err(trailers) => {
                let headers = trailers.into_trailers().unwrap_or_default();
                status = Status::from_headers(&headers);
            }
        }
    }
    status
        .ok_or_else(|| Status::new(Code::UNAVAILABLE, "the response has no gRPC status"))?
        .into_result()?;
    message.ok_or_else(|| Status::new(Code::INTERNAL, "the response has no message"))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use http::{HeaderMap, HeaderValue};
    use hyper::body::Frame;

    use super::*;
    use crate::frame;

    /// A body of these frames. Reading it further than `None` fails the test.
    struct Frames(VecDeque<Option<Frame<Bytes>>>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let next = self.0.pop_front().expect("the body is not read further");
            Poll::Ready(next.map(Ok))
        }
    }

    fn data(bytes: &[u8]) -> Option<Frame<Bytes>> {
        Some(Frame::data(Bytes::copy_from_slice(bytes)))
    }

    fn trailers(status: &'static str) -> Option<Frame<Bytes>> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from_static(status));
        Some(Frame::trailers(headers))
    }

    #[track_caller]
    fn check(frames: impl IntoIterator<Item = Option<Frame<Bytes>>>, expected: Result<&[u8], Code>) {
        let body = Frames(frames.into_iter().collect());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = runtime.block_on(read_message(body, |never| match never {}));
        let read = read.as_deref().map_err(|status| status.code);
        assert_eq!(read, expected);
    }

    #[test]
    fn the_message_is_returned_if_the_status_is_ok() {
        let frame = frame::encode(b"abc");
        let (start, end) = frame.split_at(4);
        check([data(start), data(end), trailers("0"), None], Ok(b"abc"));
        check([data(&frame), trailers("5"), None], Err(Code::NOT_FOUND));
        check([trailers("5"), None], Err(Code::NOT_FOUND));
        check([trailers("0"), None], Err(Code::INTERNAL));
        check([data(&frame), None], Err(Code::UNAVAILABLE));
    }

    #[test]
    fn a_body_that_is_too_large_is_not_read_further() {
        check([data(&[0, 0xff, 0xff, 0xff, 0xff])], Err(Code::INTERNAL));
        let frame = frame::encode(b"abc");
        check([data(&frame), data(b"more")], Err(Code::INTERNAL));
    }
}
