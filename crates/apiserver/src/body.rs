//! Response bodies, polled by the connection as fast as the client reads.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use setpoint_api::Clock;

use crate::compression::GzipBody;
use crate::filters::flow_control::ExecutingRequest;
use crate::respond::ListBody;
use crate::watch::WatchBody;

/// Frame size of a long response: several TLS records, so that one system call writes many.
pub(crate) const FRAME_BYTES: usize = 64 * 1024;

/// Maximum time for which a response that is being written occupies seats: the maximum request timeout.
const MAX_SEAT_TIME: Duration = Duration::from_secs(60);

/// A response body.
///
/// Bodies are encoded lazily: a list holds its objects and one frame, a watch its cursor and one frame.
pub enum Body {
    Empty,
    Whole(Bytes),
    /// A list, written item by item.
    List(Box<ListBody>),
    /// A watch, until it ends or the server stops.
    Watch(Box<WatchBody>),
    /// Any other stream of bytes.
    Stream(Pin<Box<dyn ByteStream>>),
    /// One of the other bodies, compressed.
    Gzip(Box<GzipBody>),
}

/// A stream of bytes, such as a file's.
pub trait ByteStream: Send {
    fn poll_chunk(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;

    /// Approximate number of bytes left, if known.
    fn length(&self) -> Option<usize> {
        None
    }
}

impl Body {
    /// Approximate length of the body, if known.
    pub(crate) fn length(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Whole(bytes) => Some(bytes.len()),
            Self::List(items) => Some(items.length()),
            Self::Stream(stream) => stream.length(),
            Self::Watch(_) | Self::Gzip(_) => None,
        }
    }

    /// Keeps the seats of the request while the body is written: those of a long list until its end, those of a watch
    /// until its first events are sent, and in any case no longer than [`MAX_SEAT_TIME`]. Other bodies are encoded
    /// already and release them now.
    pub(crate) fn hold(&mut self, mut request: ExecutingRequest, clock: &dyn Clock) {
        match self {
            Self::List(items) => {
                request.expire_at(clock.now() + MAX_SEAT_TIME);
                items.hold(request);
            }
            Self::Watch(events) => {
                request.expire_at(clock.now() + MAX_SEAT_TIME);
                events.hold(request);
            }
            _ => request.release_seats(),
        }
    }

    /// The next bytes.
    pub(crate) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Empty;
                Poll::Ready(Some(Ok(bytes)))
            }
            Self::List(items) => Poll::Ready(items.next_frame().map(Ok)),
            Self::Watch(events) => events.poll_frame(context).map(|frame| frame.map(Ok)),
            Self::Stream(stream) => stream.as_mut().poll_chunk(context),
            Self::Gzip(body) => body.poll_bytes(context),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = self.get_mut().poll_bytes(context);
        next.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::List(_) | Self::Watch(_) | Self::Stream(_) | Self::Gzip(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Whole(_) => "Whole",
            Self::List(_) => "List",
            Self::Watch(_) => "Watch",
            Self::Stream(_) => "Stream",
            Self::Gzip(_) => "Gzip",
        })
    }
}
