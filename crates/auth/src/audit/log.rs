//! The audit log: a bounded queue and one writer.

use std::fmt;
use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::file::RotatingFile;

/// How many lines may be queued. When the queue is full, requests wait: none goes unlogged.
const MAX_QUEUED_LINES: usize = 4096;

/// Queues lines. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Log {
    queue: mpsc::Sender<String>,
}

/// Writes the queued lines, in order.
pub struct Writer {
    queue: mpsc::Receiver<String>,
    out: Destination,
}

/// The destination of the lines.
enum Destination {
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
    File(Box<RotatingFile>),
}

/// A log to a stream, and its writer. Nothing is written until the writer runs.
pub fn to_stream(out: impl AsyncWrite + Send + Unpin + 'static) -> (Log, Writer) {
    with_destination(Destination::Stream(Box::new(out)))
}

/// A log to a file, and its writer. Nothing is written until the writer runs.
pub fn to_file(file: RotatingFile) -> (Log, Writer) {
    with_destination(Destination::File(Box::new(file)))
}

fn with_destination(out: Destination) -> (Log, Writer) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_LINES);
    let writer = Writer { queue: receiver, out };
    (Log { queue: sender }, writer)
}

impl Log {
    /// Queues a line, waiting while the queue is full. After the writer has stopped, lines are lost.
    pub async fn write(&self, line: String) {
        if self.queue.send(line).await.is_err() {
            tracing::warn!("audit event lost: the audit log is closed");
        }
    }
}

impl Writer {
    /// Writes until stopped, and then what is still queued. A line that cannot be written is lost, which is logged.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut lines = Vec::new();
        loop {
            tokio::select! {
                count = self.queue.recv_many(&mut lines, MAX_QUEUED_LINES) => {
                    if count == 0 {
                        return;
                    }
                    self.write(&mut lines).await;
                }
                () = stop.cancelled() => break,
            }
        }
        self.queue.close();
        while self.queue.recv_many(&mut lines, MAX_QUEUED_LINES).await > 0 {
            self.write(&mut lines).await;
        }
    }

    /// Writes several lines at once, and flushes them before the next are taken from the queue.
    async fn write(&mut self, lines: &mut Vec<String>) {
        let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
        for line in lines.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        if let Err(error) = self.out.write(text.as_bytes()).await {
            tracing::error!(%error, "failed to write the audit log, events are lost");
        }
    }
}

impl Destination {
    async fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::File(file) => file.write(text).await,
            Self::Stream(stream) => {
                stream.write_all(text).await?;
                stream.flush().await
            }
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("waiting", &self.queue.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn queued_lines_are_written_before_the_writer_stops() {
        let (mut reader, out) = tokio::io::duplex(1 << 16);
        let (log, writer) = to_stream(out);
        let stop = CancellationToken::new();
        for line in ["one", "two", "three"] {
            log.write(line.to_owned()).await;
        }
        stop.cancel();
        writer.run(stop).await;
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "one\ntwo\nthree\n");
    }

    #[tokio::test]
    async fn a_full_queue_makes_its_callers_wait() {
        let (mut reader, out) = tokio::io::duplex(64);
        let (log, writer) = to_stream(out);
        for _ in 0..MAX_QUEUED_LINES {
            log.write(String::new()).await;
        }
        tokio::select! {
            biased;
            () = log.write("late".to_owned()) => panic!("the queue is full"),
            () = tokio::task::yield_now() => {}
        }
        let stop = CancellationToken::new();
        let mut text = String::new();
        let ending = async {
            log.write("late".to_owned()).await;
            stop.cancel();
        };
        let (_, (), read) = tokio::join!(writer.run(stop.clone()), ending, reader.read_to_string(&mut text));
        read.unwrap();
        assert_eq!(text.lines().count(), MAX_QUEUED_LINES + 1);
        assert!(text.ends_with("late\n"));
    }
}
