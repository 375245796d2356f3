//! The published state of a store, and the draft of the next one: map, revision, and the history that is readable.

use std::{mem, sync::Arc};

use crate::{
    Compare, Error, Event, HistoryLimits, Millis, Op, Record, Revision,
    history::{Chunk, History},
    index::Index,
};

/// One published state. Readers load it whole, so its fields always agree.
///
/// `history` holds every change above `compacted`, up to `revision`, which is the state of `index`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) revision: Revision,
    pub(crate) compacted: Revision,
    pub(crate) index: Index,
    pub(crate) history: History,
}

/// The next head under construction: by the commit path from evaluated transactions, by recovery from the log. Not
/// visible until it is closed and published.
#[derive(Debug)]
pub(crate) struct Draft {
    head: Head,
    time: Millis,
    /// The changes since the last close.
    events: Vec<Event>,
}

// === impl Head ===

impl Head {
    /// Checks that `requested` is neither compacted nor in the future.
    pub(crate) fn check_readable(&self, requested: Revision) -> Result<(), Error> {
        if requested < self.compacted {
            let compacted = self.compacted;
            return Err(Error::Compacted { requested, compacted });
        }
        if requested > self.revision {
            let current = self.revision;
            return Err(Error::Future { requested, current });
        }
        Ok(())
    }

    /// Drops the history below `revision`. A lower revision than before has no effect.
    pub(crate) fn compact(&mut self, revision: Revision) {
        if revision > self.compacted {
            self.compacted = revision;
            self.history.trim(revision);
        }
    }
}

// === impl Draft ===

impl Draft {
    pub(crate) fn new(head: Head, time: Millis) -> Draft {
        Draft {
            head,
            time,
            events: Vec::new(),
        }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn revision(&self) -> Revision {
        self.head.revision
    }

    /// Sets the commit time of the following changes.
    pub(crate) fn set_time(&mut self, time: Millis) {
        self.time = time;
    }

    /// Checks that all compares hold; the error names the first that does not.
    pub(crate) fn check(&self, compares: &[Compare]) -> Result<(), Error> {
        for (index, compare) in compares.iter().enumerate() {
            let current = compare.current(&self.head.index);
            if !compare.holds(current) {
                let current = current.cloned();
                return Err(Error::Precondition { index, current });
            }
        }
        Ok(())
    }

    /// Whether `ops` change anything: a delete of an absent key does not.
    pub(crate) fn is_changed_by(&self, ops: &[Op]) -> bool {
        ops.iter().any(|op| match op {
            Op::Put(_) => true,
            Op::Delete { key } => self.head.index.find(key).is_some(),
        })
    }

    /// Applies `ops` at `revision`, which is above all earlier ones. Returns the new record of each put.
    pub(crate) fn apply(&mut self, revision: Revision, ops: Vec<Op>) -> Vec<Option<Arc<Record>>> {
        self.head.revision = revision;
        ops.into_iter().map(|op| self.apply_one(revision, op)).collect()
    }

    /// Completes the head: the changes become a chunk of the history. The history's limit of bytes is enforced here, so
    /// no published head exceeds it.
    pub(crate) fn close(&mut self, limits: &HistoryLimits) {
        let head = &mut self.head;
        if !self.events.is_empty() {
            let next = Vec::with_capacity(self.events.len());
            let chunk = Chunk::new(self.time, mem::replace(&mut self.events, next));
            head.history.push(chunk, head.index.map());
        }
        if let Some(revision) = head.history.compaction_point(limits.superseded_bytes) {
            head.compact(revision);
        }
    }

    /// Closes the draft and returns its head.
    pub(crate) fn finish(mut self, limits: &HistoryLimits) -> Head {
        self.close(limits);
        self.head
    }

    /// Drops the history below `revision`.
    pub(crate) fn compact(&mut self, revision: Revision) {
        self.head.compact(revision);
    }

    /// Applies a record that a cluster has assigned its numbers.
    pub(crate) fn restore(&mut self, mut record: Record) -> Arc<Record> {
        // All versions of a key share one allocation of the key.
        if let Some(old) = self.head.index.find(&record.key) {
            record.key = old.key.clone();
        }
        let record = Arc::new(record);
        let old = self.head.index.restore(record.clone());
        self.events.push(Event {
            revision: record.modified,
            old,
            new: Some(record.clone()),
        });
        record
    }

    /// Applies a delete that a cluster has ordered.
    pub(crate) fn remove(&mut self, revision: Revision, key: &[u8]) {
        if let Some(old) = self.head.index.remove(key) {
            self.events.push(Event {
                revision,
                old: Some(old),
                new: None,
            });
        }
    }

    /// Sets the revision of the state, which is not below that of its changes.
    pub(crate) fn reach(&mut self, revision: Revision) {
        self.head.revision = revision;
    }

    fn apply_one(&mut self, revision: Revision, op: Op) -> Option<Arc<Record>> {
        let (old, new) = match op {
            Op::Put(put) => {
                let (new, old) = self.head.index.put(put, revision);
                (old, Some(new))
            }
            Op::Delete { key } => (self.head.index.remove(&key), None),
        };
        if old.is_some() || new.is_some() {
            let new = new.clone();
            self.events.push(Event { revision, old, new });
        }
        new
    }
}
