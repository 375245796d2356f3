//! History: every change since the last compaction, in order.
//!
//! Watchers read it forwards from their cursor. Reads at an older revision take the nearest later map and
//! undo the changes in between. There are no version chains per key, so compaction is dropping chunks.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use imbl::Vector;

use crate::{Millis, Record, Revision, tree::Tree};

/// One change of one key. An event without `new` is a deletion; at least one of `old` and `new` is set.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the commit it belongs to.
    pub revision: Revision,
    /// The record before the change, if the key existed.
    pub old: Option<Arc<Record>>,
    /// The record after the change, unless it deleted the key.
    pub new: Option<Arc<Record>>,
}

/// The changes of one published batch. Never empty, immutable.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) last: Revision,
    pub(crate) time: Millis,
    pub(crate) events: Box<[Event]>,
    bytes: u64,
}

/// The chunks since the last compaction, oldest first, and checkpoints: maps to start undoing from.
///
/// `events` and `bytes` are the sums over `chunks`. Every checkpoint is the map as it was right after the
/// chunk that ends at its revision.
#[derive(Clone, Default)]
pub(crate) struct History {
    chunks: Vector<Arc<Chunk>>,
    checkpoints: Vector<Checkpoint>,
    events: u64,
    bytes: u64,
    since_checkpoint: usize,
}

#[derive(Clone)]
struct Checkpoint {
    revision: Revision,
    map: Tree,
}

/// Memory of one event besides the record it keeps alive.
const EVENT_OVERHEAD_BYTES: u64 = 64;

/// A checkpoint is taken after this many events, or half the number of keys if that is more: it may hold a
/// copy of every tree node, and so its cost stays below that of the events that lead to it.
const CHECKPOINT_EVENTS: usize = 4096;

// === impl Chunk ===

impl Chunk {
    pub(crate) fn new(time: Millis, events: Vec<Event>) -> Chunk {
        let last = events.last().map_or(Revision::ZERO, |event| event.revision);
        let bytes = events.iter().map(Event::superseded_bytes).sum();
        Chunk {
            last,
            time,
            events: events.into_boxed_slice(),
            bytes,
        }
    }

    /// The events with a revision above `cursor`.
    pub(crate) fn after(&self, cursor: Revision) -> &[Event] {
        let skip = self.events.partition_point(|event| event.revision <= cursor);
        &self.events[skip..]
    }
}

// === impl Event ===

impl Event {
    /// The key that changed.
    pub fn key(&self) -> &Bytes {
        let record = self.new.as_ref().or(self.old.as_ref());
        &record.expect("an event has a record before or after").key
    }

    fn superseded_bytes(&self) -> u64 {
        EVENT_OVERHEAD_BYTES + self.old.as_ref().map_or(0, |record| record.bytes())
    }
}

// === impl History ===

impl History {
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a batch; `map` is the state right after it.
    pub(crate) fn push(&mut self, chunk: Chunk, map: &Tree) {
        self.events += chunk.events.len() as u64;
        self.bytes += chunk.bytes;
        self.since_checkpoint += chunk.events.len();
        if self.since_checkpoint >= CHECKPOINT_EVENTS.max(map.len() / 2) {
            self.since_checkpoint = 0;
            self.checkpoints.push_back(Checkpoint {
                revision: chunk.last,
                map: map.clone(),
            });
        }
        self.chunks.push_back(Arc::new(chunk));
    }

    /// Drops every chunk that ends at or below `revision`.
    pub(crate) fn trim(&mut self, revision: Revision) {
        let dropped = self.position_after(revision);
        if dropped > 0 {
            let remaining = self.chunks.split_off(dropped);
            for chunk in &std::mem::replace(&mut self.chunks, remaining) {
                self.events -= chunk.events.len() as u64;
                self.bytes -= chunk.bytes;
            }
        }
        while self.checkpoints.front().is_some_and(|c| c.revision <= revision) {
            self.checkpoints.pop_front();
        }
    }

    /// The revision to compact to so that the history fits into `limit` bytes; none if it already does.
    pub(crate) fn compaction_point(&self, limit: u64) -> Option<Revision> {
        let mut bytes = self.bytes;
        let mut cut = None;
        for chunk in &self.chunks {
            if bytes <= limit {
                break;
            }
            bytes -= chunk.bytes;
            cut = Some(chunk.last);
        }
        cut
    }

    /// The newest revision that was committed at or before `time`.
    pub(crate) fn newest_at(&self, time: Millis) -> Option<Revision> {
        let mut chunks = self.chunks.iter();
        let mut found = None;
        while let Some(chunk) = chunks.next().filter(|chunk| chunk.time <= time) {
            found = Some(chunk.last);
        }
        found
    }

    /// The chunks that hold changes above `cursor`, in order.
    pub(crate) fn after(&self, cursor: Revision) -> impl Iterator<Item = &Arc<Chunk>> {
        let first = self.position_after(cursor);
        (first..self.chunks.len()).filter_map(|position| self.chunks.get(position))
    }

    /// The map as it was at `target`, undone from `newest` or a checkpoint. The caller has checked that no later
    /// change is compacted.
    pub(crate) fn rewind(&self, newest: &Tree, target: Revision) -> Tree {
        let checkpoint = self.checkpoints.iter().find(|c| c.revision >= target);
        let (mut map, base) = match checkpoint {
            Some(checkpoint) => (checkpoint.map.clone(), self.position_after(checkpoint.revision)),
            None => (newest.clone(), self.chunks.len()),
        };
        for position in (self.position_after(target)..base).rev() {
            if let Some(chunk) = self.chunks.get(position) {
                chunk
                    .after(target)
                    .iter()
                    .rev()
                    .for_each(|event| undo(&mut map, event));
            }
        }
        map
    }

    /// The position of the first chunk that holds a change above `revision`.
    fn position_after(&self, revision: Revision) -> usize {
        let found = self.chunks.binary_search_by(|chunk| {
            if chunk.last <= revision {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        });
        found.unwrap_or_else(|position| position)
    }
}

impl fmt::Debug for History {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("History")
            .field("events", &self.events)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

fn undo(map: &mut Tree, event: &Event) {
    let undone = match &event.old {
        Some(old) => map.restore(old.clone()),
        None => map.remove(event.key()),
    };
    drop(undone);
}
