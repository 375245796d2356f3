//! [`Window`]: the recent changes of a resource, shared by all subscribers.
//!
//! Changes come in batches, one for each apply, and are numbered consecutively. A subscriber is a number: the next change
//! to deliver. The window drops batches from the front, by count, by weight, or on a trim; a subscriber whose next change
//! was dropped gets [`TooOld`]. For example, with batches of 2, 1 and 3 changes and room for 4:
//!
//! ```text
//! apply            window                 first   next
//! a b              [0: a b]                   0      2
//! c                [0: a b] [2: c]            0      3
//! d e f            [2: c] [3: d e f]          2      6     a cursor at 1 has fallen out, one at 2 has not
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use setpoint_api::{Change, ResourceVersion};

/// The cache has dropped changes that the subscriber needs; it must start over from a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("changes up to revision {oldest} are no longer kept")]
pub struct TooOld {
    /// Changes after this revision are still there.
    pub oldest: ResourceVersion,
}

/// Changes of one apply, from a cursor on. All subscribers share the changes themselves.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Everything up to this revision has been delivered with this batch.
    pub version: ResourceVersion,
    chunk: Arc<Chunk>,
    from: usize,
}

/// The changes of one apply.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) changes: Vec<Change>,
    /// The revision the apply reached.
    pub(crate) version: ResourceVersion,
    pub(crate) order: RevisionOrder,
    /// The number of the first change.
    start: u64,
    weight: usize,
}

/// How the revisions of the changes in a chunk are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionOrder {
    /// Each change has its own commit's revision, and they grow: a reader may start in the middle.
    Committed,
    /// The difference between two lists: all of it happened by the chunk's revision, at unknown revisions.
    Replaced,
}

#[derive(Debug, Clone)]
pub(crate) struct Window {
    chunks: VecDeque<Arc<Chunk>>,
    /// The number of the first change kept, and of the next to come.
    first: u64,
    next: u64,
    /// Every change after this revision is kept.
    oldest: ResourceVersion,
    weight: usize,
}

/// What an object costs besides its bytes.
const OBJECT_OVERHEAD_BYTES: usize = 512;

// === impl Batch ===

impl Batch {
    /// The changes, oldest first; never none.
    pub fn changes(&self) -> &[Change] {
        &self.chunk.changes[self.from..]
    }
}

// === impl Chunk ===

impl Chunk {
    fn new(changes: Vec<Change>, version: ResourceVersion, order: RevisionOrder, start: u64) -> Self {
        let weight = changes.iter().map(weight).sum();
        Self {
            changes,
            version,
            order,
            start,
            weight,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.changes.len() as u64
    }

    /// Where the changes after this revision start.
    fn position_after(&self, after: ResourceVersion) -> usize {
        match self.order {
            _ if self.version <= after => self.changes.len(),
            RevisionOrder::Committed => self
                .changes
                .partition_point(|change| change.resource_version() <= after),
            RevisionOrder::Replaced => 0,
        }
    }
}

// === impl Window ===

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            chunks: VecDeque::new(),
            first: 0,
            next: 0,
            oldest: ResourceVersion::ZERO,
            weight: 0,
        }
    }

    pub(crate) fn push(&mut self, changes: Vec<Change>, version: ResourceVersion, order: RevisionOrder) {
        let chunk = Chunk::new(changes, version, order, self.next);
        self.next = chunk.end();
        self.weight += chunk.weight;
        self.chunks.push_back(Arc::new(chunk));
    }

    /// Drops the oldest batches until the rest is within the limits. The newest batch always stays.
    pub(crate) fn shrink(&mut self, changes: usize, bytes: usize) {
        while self.chunks.len() > 1 && (self.len() > changes || self.weight > bytes) {
            self.drop_first();
        }
    }

    /// Drops the changes up to this revision.
    pub(crate) fn trim(&mut self, oldest: ResourceVersion) {
        while self.chunks.front().is_some_and(|chunk| chunk.version <= oldest) {
            self.drop_first();
        }
        self.oldest = self.oldest.max(oldest);
    }

    /// Drops all batches before the one with the change of this number; without a number, all.
    pub(crate) fn drop_before(&mut self, position: Option<u64>) {
        let position = position.unwrap_or(self.next);
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= position) {
            self.drop_first();
        }
    }

    /// How many changes are kept from this number on; without one, none.
    pub(crate) fn after(&self, position: Option<u64>) -> usize {
        let undelivered = position.map_or(0, |position| self.next.saturating_sub(position.max(self.first)));
        usize::try_from(undelivered).expect("the window fits in memory")
    }

    /// Starts with nothing at this revision, `sequence` changes after the beginning.
    pub(crate) fn restart(&mut self, version: ResourceVersion, sequence: u64) {
        self.chunks.clear();
        (self.first, self.next) = (sequence, sequence);
        self.oldest = version;
        self.weight = 0;
    }

    /// The number of the first change after a revision.
    pub(crate) fn position_after(&self, after: ResourceVersion) -> Result<u64, TooOld> {
        if after < self.oldest {
            return Err(self.too_old());
        }
        let index = self.chunks.partition_point(|chunk| chunk.version <= after);
        Ok(match self.chunks.get(index) {
            Some(chunk) => chunk.start + chunk.position_after(after) as u64,
            None => self.next,
        })
    }

    /// The batch at the cursor, from the cursor on and without changes up to `after`; moves the cursor past it. A cursor
    /// may be ahead of the window for a moment: then there is nothing to deliver yet.
    pub(crate) fn read(&self, cursor: &mut u64, after: ResourceVersion) -> Result<Option<Batch>, TooOld> {
        if *cursor < self.first {
            return Err(self.too_old());
        }
        while *cursor < self.next {
            let chunk = self.chunk_at(*cursor);
            let offset = usize::try_from(*cursor - chunk.start).expect("a batch fits in memory");
            let from = offset.max(chunk.position_after(after));
            *cursor = chunk.end();
            if from < chunk.changes.len() {
                return Ok(Some(Batch {
                    version: chunk.version,
                    chunk: chunk.clone(),
                    from,
                }));
            }
        }
        Ok(None)
    }

    /// The chunk with the change of this number, which must be in the window. Up-to-date subscribers need the newest.
    fn chunk_at(&self, number: u64) -> &Arc<Chunk> {
        let newest = self.chunks.back().filter(|chunk| chunk.start <= number);
        newest.unwrap_or_else(|| {
            let at = self.chunks.partition_point(|chunk| chunk.end() <= number);
            &self.chunks[at]
        })
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn oldest(&self) -> ResourceVersion {
        self.oldest
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.next - self.first).expect("the window fits in memory")
    }

    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    fn drop_first(&mut self) {
        if let Some(chunk) = self.chunks.pop_front() {
            self.first = chunk.end();
            self.oldest = self.oldest.max(chunk.version);
            self.weight -= chunk.weight;
        }
    }

    fn too_old(&self) -> TooOld {
        TooOld { oldest: self.oldest }
    }
}

/// The memory that only the window keeps alive: the object before the change. The one after it is usually current.
fn weight(change: &Change) -> usize {
    let old = change.old().map_or(0, |old| old.json().len());
    OBJECT_OVERHEAD_BYTES + old
}
