//! Watchers: cursors into the shared history. Nothing is queued per watcher, so a slow watcher costs the writer
//! nothing; only compaction can end it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{Error, Event, Revision, commit::ChangeReceiver, shared::Shared};
use bytes::Bytes;

/// Reader of the changes of keys under a prefix: each change after the start revision, once, in order.
pub struct Watcher {
    shared: Arc<Shared>,
    prefix: Bytes,
    /// Everything up to here has been delivered.
    cursor: Revision,
    changes: ChangeReceiver,
    id: u64,
    /// A copy of `cursor` for the metrics.
    cell: Arc<AtomicU64>,
}

/// Consecutive changes, in order. The changes of one revision are never split over two batches.
#[derive(Clone, Debug)]
pub struct EventBatch {
    /// The matching changes; empty if only keys outside the prefix changed.
    pub events: Vec<Event>,
    /// Every change up to this revision, matching or not, has been delivered.
    pub revision: Revision,
}

/// A batch is closed at the next revision once it holds this many events.
const BATCH_EVENTS: usize = 1024;

/// A batch is closed at the next chunk once this many events were scanned, so that a watcher that matches
/// little still reports progress.
const BATCH_SCANNED: usize = 65_536;

impl Watcher {
    pub(crate) fn new(shared: Arc<Shared>, prefix: &[u8], after: Revision) -> Result<Self, Error> {
        shared.head().check_readable(after)?;
        let (id, cell) = shared.add_cursor(after);
        Ok(Watcher {
            prefix: Bytes::copy_from_slice(prefix),
            cursor: after,
            changes: shared.changes.subscribe(),
            id,
            cell,
            shared,
        })
    }

    /// Waits for changes after the last batch and returns them. Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<EventBatch, Error> {
        loop {
            // Marking the notification as seen before reading the head means that a publish in between wakes us again.
            let closed = *self.changes.borrow_and_update();
            if let Some(batch) = self.try_next()? {
                return Ok(batch);
            }
            if closed || self.changes.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }

    /// The changes after the last batch, if there are any.
    pub fn try_next(&mut self) -> Result<Option<EventBatch>, Error> {
        let head = self.shared.head();
        if self.cursor == head.revision {
            return Ok(None);
        }
        head.check_readable(self.cursor)?;
        let mut events = Vec::new();
        let mut scanned = 0;
        let mut reached = head.revision;
        for chunk in head.history.after(self.cursor) {
            let fresh = chunk.after(self.cursor);
            let taken = self.take(fresh, &mut events);
            scanned += taken;
            if taken < fresh.len() || events.len() >= BATCH_EVENTS || scanned >= BATCH_SCANNED {
                reached = fresh[taken - 1].revision;
                break;
            }
        }
        self.cursor = reached;
        self.cell.store(reached.get(), Relaxed);
        Ok(Some(EventBatch {
            events,
            revision: reached,
        }))
    }

    /// The revision up to which everything has been delivered.
    pub fn revision(&self) -> Revision {
        self.cursor
    }

    /// Copies matching events until the batch is full and a revision ends; returns the number of scanned events.
    fn take(&self, fresh: &[Event], events: &mut Vec<Event>) -> usize {
        for (position, event) in fresh.iter().enumerate() {
            let starts_revision = position == 0 || fresh[position - 1].revision < event.revision;
            if position > 0 && starts_revision && events.len() >= BATCH_EVENTS {
                return position;
            }
            if event.key().starts_with(&self.prefix) {
                events.push(event.clone());
            }
        }
        fresh.len()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.remove_cursor(self.id);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Watcher")
            .field("prefix", &self.prefix)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}
