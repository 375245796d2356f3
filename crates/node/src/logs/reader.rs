//! [`LogReader`]: sends a log to a client, and follows it.

use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use setpoint_api::Clock;
use tokio::fs::File;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, BufReader};
use tokio::sync::mpsc;

use super::entry::{Entry, Stream};
use super::filter::{Filter, LogOptions};
use super::tail;

/// How often a followed file is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes that are sent at once.
const CHUNK_BYTES: usize = 32 << 10;
/// Maximum length of a line; a runtime cuts lines at 16 KiB.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Where a log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogSource {
    /// A file in the format of the Container Runtime Interface.
    File(PathBuf),
    /// The text of a simulated container, written when it was started.
    Text {
        /// When it was started.
        time: Timestamp,
        /// The lines.
        text: String,
    },
}

/// Whether a followed container still runs.
pub trait FollowState: Send + Sync {
    /// Returns whether it may write more.
    fn is_running(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
}

/// An opened log.
#[derive(Debug)]
pub struct LogReader {
    input: Input,
    options: LogOptions,
}

#[derive(Debug)]
enum Input {
    File {
        path: PathBuf,
        file: BufReader<File>,
        inode: u64,
    },
    Text {
        time: Timestamp,
        text: String,
    },
}

// === impl LogSource ===

impl LogSource {
    /// Opens the log. An error is the kubelet's text.
    pub async fn open(self, options: LogOptions) -> Result<LogReader, String> {
        let input = match self {
            Self::Text { time, text } => Input::Text { time, text },
            Self::File(path) => {
                let failed = |error: io::Error| {
                    let path = path.display();
                    format!(
                        "failed to try resolving symlinks in path {:?}: {}",
                        path.to_string(),
                        go_error(&path, &error)
                    )
                };
                let path = tokio::fs::canonicalize(&path).await.map_err(failed)?;
                let opened = open_file(&path, options.tail_lines).await;
                let (file, inode) = opened.map_err(|error| {
                    let name = path.display().to_string();
                    format!("failed to open log file {name:?}: {error}")
                })?;
                Input::File { path, file, inode }
            }
        };
        Ok(LogReader { input, options })
    }
}

/// An error of a missing file, with Go's text.
fn go_error(path: &impl std::fmt::Display, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("lstat {path}: no such file or directory"),
        _ => error.to_string(),
    }
}

async fn open_file(path: &Path, tail_lines: Option<u64>) -> io::Result<(BufReader<File>, u64)> {
    let mut file = File::open(path).await?.into_std().await;
    let inode = file.metadata()?.ino();
    let positioned = tokio::task::spawn_blocking(move || {
        if let Some(lines) = tail_lines {
            let start = tail::find_start(&mut file, lines)?;
            file.seek(SeekFrom::Start(start))?;
        }
        io::Result::Ok(file)
    });
    let file = positioned.await.map_err(io::Error::other)??;
    let file = BufReader::with_capacity(CHUNK_BYTES, File::from_std(file));
    Ok((file, inode))
}

// === impl LogReader ===

impl LogReader {
    /// Sends the log until its end, or, if it is followed, until the container has ended and all is sent. Returns early if
    /// the client leaves.
    pub async fn send(self, out: mpsc::Sender<Bytes>, state: Arc<dyn FollowState>, clock: Arc<dyn Clock>) {
        let mut sender = Sender {
            filter: Filter::new(&self.options),
            pending: Vec::new(),
            out,
        };
        let sent = match self.input {
            Input::Text { time, text } => {
                send_text(&mut sender, (time, &text), &self.options, (&*state, &*clock)).await
            }
            Input::File { path, file, inode } => {
                let file = FollowedFile { path, file, inode };
                file.send(&mut sender, &self.options, (&*state, &*clock)).await
            }
        };
        match sent {
            Ok(()) => {}
            Err(EndReason::Limit | EndReason::ClientLeft) => {}
            Err(EndReason::Failed(error)) => tracing::warn!(%error, "cannot read a log"),
        }
    }
}

/// Why no more is sent.
enum EndReason {
    /// The limit of bytes is reached.
    Limit,
    ClientLeft,
    Failed(io::Error),
}

struct Sender {
    filter: Filter,
    pending: Vec<u8>,
    out: mpsc::Sender<Bytes>,
}

impl Sender {
    async fn add(&mut self, entry: &Entry<'_>) -> Result<(), EndReason> {
        self.filter.append(entry, &mut self.pending);
        if self.filter.is_done() {
            self.flush().await?;
            return Err(EndReason::Limit);
        }
        match self.pending.len() >= CHUNK_BYTES {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    async fn flush(&mut self) -> Result<(), EndReason> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.pending).into();
        self.out.send(bytes).await.map_err(|_| EndReason::ClientLeft)
    }

    /// Waits for the next look at a followed log. Returns early if the client leaves.
    async fn wait(&self, clock: &dyn Clock) -> Result<(), EndReason> {
        tokio::select! {
            () = clock.sleep(FOLLOW_INTERVAL) => Ok(()),
            () = self.out.closed() => Err(EndReason::ClientLeft),
        }
    }
}

async fn send_text(
    sender: &mut Sender,
    (time, text): (Timestamp, &str),
    options: &LogOptions,
    (state, clock): (&dyn FollowState, &dyn Clock),
) -> Result<(), EndReason> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let tail = options.tail_lines.unwrap_or(u64::MAX);
    let skipped = (lines.len() as u64).saturating_sub(tail) as usize;
    for line in &lines[skipped..] {
        let line = format!("{}\n", line.trim_end_matches('\n'));
        let entry = Entry {
            time,
            stream: Stream::Stdout,
            text: line.as_bytes(),
        };
        sender.add(&entry).await?;
    }
    sender.flush().await?;
    while options.follow && state.is_running().await {
        sender.wait(clock).await?;
    }
    Ok(())
}

struct FollowedFile {
    path: PathBuf,
    file: BufReader<File>,
    inode: u64,
}

impl FollowedFile {
    async fn send(
        mut self,
        sender: &mut Sender,
        options: &LogOptions,
        (state, clock): (&dyn FollowState, &dyn Clock),
    ) -> Result<(), EndReason> {
        let mut limit = options.tail_lines.filter(|_| !options.follow);
        loop {
            self.send_lines(sender, (options.follow, &mut limit)).await?;
            sender.flush().await?;
            if !options.follow {
                return Ok(());
            }
            // What is written until the container has ended is read once more.
            if !state.is_running().await {
                self.send_lines(sender, (false, &mut limit)).await?;
                return sender.flush().await;
            }
            sender.wait(clock).await?;
            self.reopen_if_rotated(sender).await?;
        }
    }

    /// Sends the lines up to the end of the file. With `keep_last`, a last line without its end is left to be read again;
    /// otherwise it is sent.
    async fn send_lines(
        &mut self,
        sender: &mut Sender,
        (keep_last, limit): (bool, &mut Option<u64>),
    ) -> Result<(), EndReason> {
        let mut line = Vec::new();
        while *limit != Some(0) {
            line.clear();
            let mut limited = (&mut self.file).take(MAX_LINE_BYTES);
            let count = limited
                .read_until(b'\n', &mut line)
                .await
                .map_err(EndReason::Failed)?;
            if count == 0 {
                return Ok(());
            }
            let is_unfinished = !line.ends_with(b"\n") && (count as u64) < MAX_LINE_BYTES;
            if keep_last && is_unfinished {
                let back = SeekFrom::Current(-(count as i64));
                self.file.seek(back).await.map_err(EndReason::Failed)?;
                return Ok(());
            }
            match Entry::parse(&line) {
                Some(entry) => sender.add(&entry).await?,
                None => tracing::debug!(path = %self.path.display(), "log has a line of another format"),
            }
            if let Some(limit) = limit {
                *limit -= 1;
            }
        }
        Ok(())
    }

    /// Opens the file again if another one has its name, after the rest of the old one was sent.
    async fn reopen_if_rotated(&mut self, sender: &mut Sender) -> Result<(), EndReason> {
        let Ok(metadata) = tokio::fs::metadata(&self.path).await else {
            return Ok(());
        };
        if metadata.ino() == self.inode {
            return Ok(());
        }
        let Ok((file, inode)) = open_file(&self.path, None).await else {
            return Ok(());
        };
        self.send_lines(sender, (false, &mut None)).await?;
        (self.file, self.inode) = (file, inode);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
