//! Where the lines go: a queue, and one writer behind it.

use std::fmt;
use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::file::RotatingFile;

/// How many lines may wait. When as many do, whoever has the next one waits, too: no request goes by untold.
const MOST_WAITING: usize = 4096;

/// Takes lines. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Log {
    queue: mpsc::Sender<String>,
}

/// Writes the lines, in the order they came.
pub struct Writer {
    queue: mpsc::Receiver<String>,
    out: Out,
}

/// Where lines end up.
enum Out {
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
    File(Box<RotatingFile>),
}

/// A log to a stream, and its writer. Nothing is written until the writer runs.
pub fn to(out: impl AsyncWrite + Send + Unpin + 'static) -> (Log, Writer) {
    writing(Out::Stream(Box::new(out)))
}

/// A log to a file, and its writer. Nothing is written until the writer runs.
pub fn to_file(file: RotatingFile) -> (Log, Writer) {
    writing(Out::File(Box::new(file)))
}

fn writing(out: Out) -> (Log, Writer) {
    let (sender, receiver) = mpsc::channel(MOST_WAITING);
    let writer = Writer { queue: receiver, out };
    (Log { queue: sender }, writer)
}

impl Log {
    /// Hands a line over, waiting while the queue is full. Once the writer has stopped, lines are lost.
    pub async fn write(&self, line: String) {
        if self.queue.send(line).await.is_err() {
            tracing::warn!("an audit line came after the log was closed");
        }
    }
}

impl Writer {
    /// Writes until told to stop, and then what is still waiting. A line that cannot be written is lost, and told.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut lines = Vec::new();
        loop {
            tokio::select! {
                count = self.queue.recv_many(&mut lines, MOST_WAITING) => {
                    if count == 0 {
                        return;
                    }
                    self.write(&mut lines).await;
                }
                () = stop.cancelled() => break,
            }
        }
        self.queue.close();
        while self.queue.recv_many(&mut lines, MOST_WAITING).await > 0 {
            self.write(&mut lines).await;
        }
    }

    /// Several lines are one write; they are out before the next are taken.
    async fn write(&mut self, lines: &mut Vec<String>) {
        let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
        for line in lines.drain(..) {
            text.push_str(&line);
            text.push('\n');
        }
        if let Err(error) = self.out.write(text.as_bytes()).await {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

impl Out {
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
    async fn what_was_handed_over_is_written_before_the_end() {
        let (mut reader, out) = tokio::io::duplex(1 << 16);
        let (log, writer) = to(out);
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
        let (log, writer) = to(out);
        for _ in 0..MOST_WAITING {
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
        assert_eq!(text.lines().count(), MOST_WAITING + 1);
        assert!(text.ends_with("late\n"));
    }
}
