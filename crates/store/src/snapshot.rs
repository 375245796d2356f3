//! Snapshots: read-only views of the map at one revision.

use std::{
    fmt,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use crate::{
    Record, Revision,
    index::prefix_bounds,
    tree::{Range, Tree},
};

/// The whole map at one revision. Cheap to create and clone, immutable, and valid after compaction and after its
/// store was closed.
#[derive(Clone)]
pub struct Snapshot {
    revision: Revision,
    map: Tree,
}

/// Double-ended iterator over records of a snapshot, in key order.
pub struct Records<'a> {
    inner: Range<'a>,
}

// === impl Snapshot ===

impl Snapshot {
    pub(crate) fn new(revision: Revision, map: Tree) -> Snapshot {
        Snapshot { revision, map }
    }

    /// The revision it shows.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The record under `key`.
    pub fn get(&self, key: &[u8]) -> Option<Arc<Record>> {
        self.map.get(key).cloned()
    }

    /// The records whose keys lie in `range`, in order. Ranges over borrowed keys are written as a pair of bounds.
    pub fn range(&self, range: impl RangeBounds<[u8]>) -> Records<'_> {
        Records {
            inner: self.map.range(&range),
        }
    }

    /// The records whose keys start with `prefix`, in order.
    pub fn prefix(&self, prefix: &[u8]) -> Records<'_> {
        let (start, end) = prefix_bounds(prefix);
        self.range((as_slice(&start), as_slice(&end)))
    }

    /// How many keys start with `prefix`. Costs one step per such key.
    pub fn count(&self, prefix: &[u8]) -> usize {
        if prefix.is_empty() {
            return self.map.len();
        }
        self.prefix(prefix).inner.count()
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Arc<Record>> {
        self.map.iter()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Snapshot")
            .field("revision", &self.revision)
            .field("keys", &self.map.len())
            .finish_non_exhaustive()
    }
}

// === impl Records ===

impl<'a> Records<'a> {
    /// The same records without cloning each `Arc`. Such a reader writes to no reference count that a writer needs.
    pub fn by_reference(self) -> impl DoubleEndedIterator<Item = &'a Arc<Record>> {
        self.inner
    }
}

impl Iterator for Records<'_> {
    type Item = Arc<Record>;

    fn next(&mut self) -> Option<Arc<Record>> {
        self.inner.next().cloned()
    }
}

impl DoubleEndedIterator for Records<'_> {
    fn next_back(&mut self) -> Option<Arc<Record>> {
        self.inner.next_back().cloned()
    }
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Records").finish_non_exhaustive()
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
