//! The body of an answer, pulled by the connection as fast as the caller reads.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::respond::Items;
use crate::watch::Events;

/// How big a frame of a long answer is: several TLS records, so that one system call carries many.
pub(crate) const FRAME_BYTES: usize = 64 * 1024;

/// The body of an answer.
///
/// Nothing is made before it is asked for: a list holds its objects and one frame, a watch its cursor and one frame.
pub enum Body {
    Empty,
    Whole(Bytes),
    /// A list, written item by item.
    Items(Box<Items>),
    /// A watch, until it ends or the server stops.
    Events(Box<Events>),
    /// Anything else that comes in pieces.
    Pieces(Pin<Box<dyn Pieces>>),
}

/// Bytes that come in pieces, such as a file's.
pub trait Pieces: Send {
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let next = match this {
            Self::Empty => Poll::Ready(None),
            Self::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Self::Empty;
                Poll::Ready(Some(Ok(bytes)))
            }
            Self::Items(items) => Poll::Ready(items.next_frame().map(Ok)),
            Self::Events(events) => events.poll_frame(context).map(|frame| frame.map(Ok)),
            Self::Pieces(pieces) => pieces.as_mut().poll_piece(context),
        };
        next.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Items(_) | Self::Events(_) | Self::Pieces(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Whole(_) => "Whole",
            Self::Items(_) => "Items",
            Self::Events(_) => "Events",
            Self::Pieces(_) => "Pieces",
        })
    }
}
