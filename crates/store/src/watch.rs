//! Watching: a cursor into the shared history. Nothing is queued per watcher, so a reader that stalls costs
//! a writer nothing; only compaction can cut it off.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use tokio::sync::watch;

use crate::{
    Error, Event, Revision,
    shared::{Bell, Shared},
};

/// A reader of changes under a prefix: every one after its start, once, in order.
pub struct Watcher {
    shared: Arc<Shared>,
    prefix: Bytes,
    /// Everything up to here has been delivered.
    cursor: Revision,
    bell: watch::Receiver<Bell>,
    id: u64,
    /// A copy of `cursor` for the metrics.
    cell: Arc<AtomicU64>,
}

/// Some changes, in order, always of whole revisions.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The matching changes; none if only others happened.
    pub events: Vec<Event>,
    /// Everything up to this revision, matching or not, has now been delivered.
    pub revision: Revision,
}

/// A batch is closed at the next revision once it holds this many events.
const BATCH_EVENTS: usize = 1024;

/// A batch is closed at the next chunk once this many events were looked at, so that a watcher that
/// matches little still reports progress.
const BATCH_SCANNED: usize = 65_536;

impl Watcher {
    pub(crate) fn new(shared: Arc<Shared>, prefix: &[u8], after: Revision) -> Result<Self, Error> {
        shared.head().check_readable(after)?;
        let (id, cell) = shared.add_cursor(after);
        Ok(Watcher {
            prefix: Bytes::copy_from_slice(prefix),
            cursor: after,
            bell: shared.bell(),
            id,
            cell,
            shared,
        })
    }

    /// Waits until something happened after the last batch, and returns it. Dropping the future loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            // Looking at the bell before the head makes a change in between ring again.
            let closed = self.bell.borrow_and_update().closed;
            if let Some(batch) = self.try_next()? {
                return Ok(batch);
            }
            if closed || self.bell.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }

    /// What happened after the last batch, if anything did.
    pub fn try_next(&mut self) -> Result<Option<Batch>, Error> {
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
        Ok(Some(Batch {
            events,
            revision: reached,
        }))
    }

    /// The revision up to which everything has been delivered.
    pub fn revision(&self) -> Revision {
        self.cursor
    }

    /// Copies matching events until the batch is full and a revision ends; says how many were looked at.
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
