//! The two subjects that make entries durable for concurrent writers: the baseline and the store.

use std::{
    future::Future,
    mem,
    path::Path,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Context, Result};
use bytes::Bytes;
use setpoint_store::Store;
use tokio::sync::oneshot;

use super::{disk::BareLog, subject};

/// Makes one entry durable; resolves when it is.
pub(crate) trait Append: Send + Sync + 'static {
    fn append(&self, key: Bytes, value: Bytes) -> impl Future<Output = Result<()>> + Send;
}

/// Group commit with nothing around it: writers add entries to a queue, one thread takes the whole queue, writes it
/// with one durable write and acknowledges it. Entries that arrive during that write are the next batch.
#[derive(Debug, Default)]
pub(crate) struct GroupLog {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Durable writes so far.
    batches: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Bounded by the number of writers: each waits for its commit before it appends again.
    entries: Vec<Entry>,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    key: Bytes,
    value: Bytes,
    done: oneshot::Sender<()>,
}

/// Runs `work` with a group log whose committer thread lives exactly as long.
pub(crate) fn with_group_log<T>(path: &Path, work: impl FnOnce(&Arc<GroupLog>) -> Result<T>) -> Result<T> {
    let mut file = BareLog::create(path)?;
    let log = Arc::new(GroupLog::default());
    thread::scope(|scope| {
        let committer = scope.spawn(|| log.run(&mut file));
        let outcome = work(&log);
        log.close();
        committer.join().expect("the committer does not panic")?;
        outcome
    })
}

// === impl GroupLog ===

impl GroupLog {
    pub(crate) fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    fn run(&self, file: &mut BareLog) -> Result<()> {
        let mut entries = Vec::new();
        while self.take(&mut entries) {
            for entry in &entries {
                file.push(&entry.key, &entry.value);
            }
            file.commit()?;
            self.batches.fetch_add(1, Ordering::Relaxed);
            for entry in entries.drain(..) {
                // A writer that stopped waiting is not this loop's concern.
                let _ = entry.done.send(());
            }
        }
        Ok(())
    }

    /// Waits for entries and takes all of them; false once the log is closed and empty.
    fn take(&self, entries: &mut Vec<Entry>) -> bool {
        let mut queue = self.lock();
        while queue.entries.is_empty() && !queue.closed {
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        mem::swap(&mut queue.entries, entries);
        !entries.is_empty()
    }

    fn push(&self, entry: Entry) {
        let mut queue = self.lock();
        let was_empty = queue.entries.is_empty();
        queue.entries.push(entry);
        drop(queue);
        // The committer only sleeps on an empty list, so only the first entry has to wake it.
        if was_empty {
            self.arrived.notify_one();
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Append for GroupLog {
    async fn append(&self, key: Bytes, value: Bytes) -> Result<()> {
        let (done, response) = oneshot::channel();
        self.push(Entry { key, value, done });
        response.await.context("the bare log stopped")
    }
}

impl Append for Store {
    async fn append(&self, key: Bytes, value: Bytes) -> Result<()> {
        self.commit(subject::put(key, value)).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_writer_of_a_group_log_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        let acknowledged = with_group_log(&dir.path().join("log"), |log| {
            thread::scope(|scope| {
                let writers: Vec<_> = (0..8)
                    .map(|n| {
                        scope.spawn(move || {
                            subject::block_on(log.append(subject::key(n), Bytes::from_static(b"v")))
                        })
                    })
                    .collect();
                Ok(writers
                    .into_iter()
                    .map(|writer| writer.join().unwrap())
                    .filter(Result::is_ok)
                    .count())
            })
        });
        assert_eq!(acknowledged.unwrap(), 8);
    }
}
