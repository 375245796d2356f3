//! What sessions over WebSockets and over SPDY share: the queue of outgoing frames, writers that append to it, the idle
//! timeout, and the order in which a session ends.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio_util::sync::PollSender;

/// Frames that wait to be sent. A writer waits while the queue is full.
const QUEUED_FRAMES: usize = 16;
/// Maximum data of one outgoing frame.
const FRAME_BYTES: usize = 32 << 10;
/// Bytes after which encoded frames are sent before more are encoded.
const WRITE_BYTES: usize = 64 << 10;
/// Bytes of a channel that wait to be read by the command.
pub(crate) const PIPE_BYTES: usize = 64 << 10;
/// Size of the read buffer of a connection.
pub(crate) const READ_BYTES: usize = 32 << 10;
/// How long the server waits for the client to close the connection after it has sent everything.
const LINGER: Duration = Duration::from_secs(10);

/// A bidirectional stream of bytes.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// The time limits of sessions.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A session without any frame for this long ends.
    pub idle: Duration,
    /// How long the server waits for the streams that belong to a request.
    pub stream_creation: Duration,
}

impl Default for Limits {
    /// Those of the kubelet.
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(4 * 60 * 60),
            stream_creation: Duration::from_secs(30),
        }
    }
}

/// A frame to be sent.
#[derive(Debug)]
pub(crate) enum OutgoingFrame {
    Data(u32, Bytes),
    /// The server sends nothing more on the channel.
    Finish(u32),
    /// Accepts a stream that the client opens.
    Accept(u32),
    /// Rejects or aborts a stream.
    Reset(u32),
    /// The response to a ping.
    Pong(Vec<u8>),
    /// The last frame of the connection.
    Close,
}

/// Encodes outgoing frames.
pub(crate) trait Encode {
    fn encode(&mut self, frame: &OutgoingFrame, out: &mut Vec<u8>);
}

/// The sending side of the queue of outgoing frames.
pub(crate) type FrameSender = mpsc::Sender<OutgoingFrame>;

/// A queue of outgoing frames.
pub(crate) fn queue() -> (FrameSender, mpsc::Receiver<OutgoingFrame>) {
    mpsc::channel(QUEUED_FRAMES)
}

/// Reports frames to the idle timeout.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity(Arc<Notify>);

impl Activity {
    pub(crate) fn report(&self) {
        self.0.notify_one();
    }

    /// Returns once there was no frame for this long.
    async fn idle(&self, timeout: Duration) {
        while tokio::time::timeout(timeout, self.0.notified()).await.is_ok() {}
    }
}

/// Sends frames until the queue ends or the last frame is sent.
pub(crate) async fn write_frames(
    mut writer: impl AsyncWrite + Unpin,
    mut frames: mpsc::Receiver<OutgoingFrame>,
    mut encoder: impl Encode,
    activity: &Activity,
) -> io::Result<()> {
    let mut out = Vec::new();
    let mut is_open = true;
    while is_open && let Some(mut frame) = frames.recv().await {
        loop {
            is_open = !matches!(frame, OutgoingFrame::Close);
            encoder.encode(&frame, &mut out);
            if !is_open || out.len() >= WRITE_BYTES {
                break;
            }
            match frames.try_recv() {
                Ok(next) => frame = next,
                Err(_) => break,
            }
        }
        writer.write_all(&out).await?;
        writer.flush().await?;
        out.clear();
        activity.report();
    }
    writer.shutdown().await
}

/// Runs a session: `read` handles the client's frames until the client leaves, `write` sends frames, `work` is the request
/// itself and queues [`OutgoingFrame::Close`] when it is done. If the client leaves first, the request is dropped.
pub(crate) async fn drive<R, W>(
    read: R,
    write: W,
    work: impl Future<Output = ()>,
    (activity, idle): (&Activity, Duration),
) where
    R: Future<Output = io::Result<()>>,
    W: Future<Output = io::Result<()>>,
{
    let (mut read, mut write) = (pin!(read), pin!(write));
    let ended = tokio::select! {
        () = work => None,
        ended = &mut read => Some(ended),
        ended = &mut write => Some(ended),
        () = activity.idle(idle) => Some(Err(io::ErrorKind::TimedOut.into())),
    };
    match ended {
        Some(Err(reason)) => tracing::debug!(%reason, "stream ended early"),
        Some(Ok(())) => {}
        // Everything is sent before the connection is closed, and what the client still sends is read: otherwise the
        // kernel would drop what the client has not received.
        None => {
            let closed = async { tokio::join!(write, read) };
            if tokio::time::timeout(LINGER, closed).await.is_err() {
                tracing::debug!("client did not close its connection");
            }
        }
    }
}

/// Writes to one channel of a connection.
#[derive(Debug)]
pub(crate) struct ChannelWriter {
    sender: PollSender<OutgoingFrame>,
    channel: u32,
    is_finished: Arc<AtomicBool>,
}

/// Ends a channel once, also if its writer has done that already.
#[derive(Debug)]
pub(crate) struct ChannelEnd {
    sender: FrameSender,
    channel: u32,
    is_finished: Arc<AtomicBool>,
    /// By which the channel counts as open until it is ended.
    _permit: Option<OwnedSemaphorePermit>,
}

impl ChannelEnd {
    /// The same, which holds a permit until it is dropped.
    pub(crate) fn holding(self, permit: OwnedSemaphorePermit) -> Self {
        Self {
            _permit: Some(permit),
            ..self
        }
    }

    pub(crate) async fn finish(self) {
        if !self.is_finished.swap(true, Ordering::AcqRel) {
            send(&self.sender, OutgoingFrame::Finish(self.channel)).await;
        }
    }
}

/// Queues a frame. A frame after the end of the connection is dropped.
pub(crate) async fn send(sender: &FrameSender, frame: OutgoingFrame) {
    if sender.send(frame).await.is_err() {
        tracing::trace!("connection has ended");
    }
}

// === impl ChannelWriter ===

impl ChannelWriter {
    pub(crate) fn new(sender: &FrameSender, channel: u32) -> (Self, ChannelEnd) {
        let is_finished = Arc::new(AtomicBool::new(false));
        let writer = Self {
            sender: PollSender::new(sender.clone()),
            channel,
            is_finished: is_finished.clone(),
        };
        let end = ChannelEnd {
            sender: sender.clone(),
            channel,
            is_finished,
            _permit: None,
        };
        (writer, end)
    }

    fn poll_send(&mut self, context: &mut Context<'_>, frame: OutgoingFrame) -> Poll<io::Result<()>> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.sender.poll_reserve(context)).map_err(closed)?;
        Poll::Ready(self.sender.send_item(frame).map_err(closed))
    }
}

impl AsyncWrite for ChannelWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_finished.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let piece = &bytes[..bytes.len().min(FRAME_BYTES)];
        let frame = OutgoingFrame::Data(self.channel, Bytes::copy_from_slice(piece));
        self.poll_send(context, frame).map_ok(|()| piece.len())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_finished.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let frame = OutgoingFrame::Finish(self.channel);
        ready!(self.poll_send(context, frame))?;
        self.is_finished.store(true, Ordering::Release);
        Poll::Ready(Ok(()))
    }
}
