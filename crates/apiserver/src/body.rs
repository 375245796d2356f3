//! The body of an answer, pulled by the connection as fast as the caller reads.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::respond::Items;
use crate::watch::Events;
use crate::zip::Zipped;

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
    /// Any of the others, compressed.
    Zipped(Box<Zipped>),
}

/// Bytes that come in pieces, such as a file's.
pub trait Pieces: Send {
    fn poll_piece(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;

    /// About how many bytes are to come, where that is known.
    fn length(&self) -> Option<usize> {
        None
    }
}

impl Body {
    /// About how many bytes the body has, where that is known.
    pub(crate) fn length(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Whole(bytes) => Some(bytes.len()),
            Self::Items(items) => Some(items.length()),
            Self::Pieces(pieces) => pieces.length(),
            Self::Events(_) | Self::Zipped(_) => None,
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
            Self::Items(items) => Poll::Ready(items.next_frame().map(Ok)),
            Self::Events(events) => events.poll_frame(context).map(|frame| frame.map(Ok)),
            Self::Pieces(pieces) => pieces.as_mut().poll_piece(context),
            Self::Zipped(zipped) => zipped.poll_bytes(context),
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
        next.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Items(_) | Self::Events(_) | Self::Pieces(_) | Self::Zipped(_) => SizeHint::default(),
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
            Self::Zipped(_) => "Zipped",
        })
    }
}
