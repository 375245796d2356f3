//! Bodies of responses, and responses with a text.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of a response.
pub(super) enum Body {
    Full(Option<Bytes>),
    /// Bytes as they come, and the future that sends them. It runs while the client reads.
    Stream {
        bytes: mpsc::Receiver<Bytes>,
        source: Option<BoxFuture<'static, ()>>,
    },
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Full(Some(text.into()))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream { bytes, source } => {
                if let Some(running) = source
                    && running.as_mut().poll(context).is_ready()
                {
                    *source = None;
                }
                let received = bytes.poll_recv(context);
                received.map(|received| received.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream { .. } => SizeHint::default(),
        }
    }
}

/// A response with a plain text.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(Body::from(text.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// A response with JSON.
pub(super) fn json(text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The response to a method that the path does not have.
pub(super) fn method_not_allowed(allowed: &'static str) -> Response<Body> {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
