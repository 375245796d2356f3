//! Index of the live keys, in order, and of their expiry times.

use std::{fmt, ops::Bound, sync::Arc};

use bytes::Bytes;
use imbl::OrdSet;

use crate::{Millis, Put, Record, Revision, tree::Tree};

/// The live records and what is derived from them.
///
/// `expiries` holds `(expires, key)` for exactly those records of `map` that expire, and `bytes` is the size of
/// all keys and values. Only [`Index::put`], [`Index::restore`] and [`Index::remove`] change the three, together.
#[derive(Clone, Default)]
pub(crate) struct Index {
    map: Tree,
    expiries: OrdSet<(Millis, Bytes)>,
    bytes: u64,
}

// === impl Index ===

impl Index {
    pub(crate) fn map(&self) -> &Tree {
        &self.map
    }

    /// Builds the index from records in strictly ascending key order.
    pub(crate) fn of_sorted(records: Vec<Arc<Record>>) -> Index {
        let bytes = records.iter().map(|record| record.bytes()).sum();
        let expires = |record: &Arc<Record>| Some((record.expires?, record.key.clone()));
        Index {
            expiries: records.iter().filter_map(expires).collect(),
            map: Tree::of_sorted(records),
            bytes,
        }
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<Record>> {
        self.map.get(key)
    }

    /// The records whose keys start with `prefix`, in order.
    pub(crate) fn prefix(&self, prefix: &[u8]) -> impl Iterator<Item = &Arc<Record>> {
        let (start, end) = prefix_bounds(prefix);
        let bounds = [&start, &end].map(|bound| bound.as_ref().map(Vec::as_slice));
        self.map.range(&<(Bound<&[u8]>, Bound<&[u8]>)>::from(bounds))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes `put` at `revision`. Returns the new record and the one it replaces.
    pub(crate) fn put(&mut self, put: Put, revision: Revision) -> (Arc<Record>, Option<Arc<Record>>) {
        let (new, old) = self.map.put(Record::first(put, revision));
        self.bytes += new.bytes();
        if let Some(expires) = new.expires {
            self.expiries.insert((expires, new.key.clone()));
        }
        if let Some(old) = &old {
            self.subtract(old, new.expires);
        }
        (new, old)
    }

    /// Writes a record as it is. Returns the one it replaces.
    pub(crate) fn restore(&mut self, record: Arc<Record>) -> Option<Arc<Record>> {
        self.bytes += record.bytes();
        let expires = record.expires;
        if let Some(expires) = expires {
            self.expiries.insert((expires, record.key.clone()));
        }
        let old = self.map.restore(record);
        if let Some(old) = &old {
            self.subtract(old, expires);
        }
        old
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Record>> {
        let old = self.map.remove(key)?;
        self.subtract(&old, None);
        Some(old)
    }

    /// The records that have expired at `now`, earliest first.
    pub(crate) fn due(&self, now: Millis) -> impl Iterator<Item = &Arc<Record>> {
        let expired = self.expiries.iter().take_while(move |(at, _)| *at <= now);
        expired.filter_map(|(_, key)| self.find(key))
    }

    pub(crate) fn next_expiry(&self) -> Option<Millis> {
        self.expiries.get_min().map(|(at, _)| *at)
    }

    /// Subtracts a replaced record; `current` is the expiry its key has now.
    fn subtract(&mut self, old: &Record, current: Option<Millis>) {
        self.bytes -= old.bytes();
        if let Some(expires) = old.expires
            && current != Some(expires)
        {
            self.expiries.remove(&(expires, old.key.clone()));
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Index")
            .field("keys", &self.map.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// The range of keys that start with `prefix`.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    let upper = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end)
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(prefix.to_vec()), upper)
}
