//! The live keys, in order, with what is due to expire.

use std::{borrow::Borrow, cmp::Ordering, fmt, ops::Bound, sync::Arc};

use bytes::Bytes;
use imbl::OrdSet;

use crate::{Millis, Record};

/// The records of one revision, in the order of their keys. Persistent: a clone costs nanoseconds and shares
/// everything.
pub(crate) type Map = OrdSet<Item>;

/// A record as the map holds it: found and ordered by its key alone. One pointer per entry keeps the copying
/// of tree nodes, which is most of what a commit costs, half as long as a map from keys would.
#[derive(Clone, Debug)]
pub(crate) struct Item(pub(crate) Arc<Record>);

/// The live keys and what follows from them.
///
/// `expiries` holds `(expires, key)` for exactly those records of `map` that expire, and `bytes` is the sum
/// of their keys and values. Only [`Index::put`] and [`Index::remove`] change the three, together.
#[derive(Clone, Default)]
pub(crate) struct Index {
    map: Map,
    expiries: OrdSet<(Millis, Bytes)>,
    bytes: u64,
}

// === impl Index ===

impl Index {
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<Record>> {
        self.map.get(key).map(|item| &item.0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Puts the record under its key and returns the one it replaces.
    pub(crate) fn put(&mut self, record: Arc<Record>) -> Option<Arc<Record>> {
        self.bytes += record.bytes();
        if let Some(expires) = record.expires {
            self.expiries.insert((expires, record.key.clone()));
        }
        let expires = record.expires;
        let old = self.map.insert(Item(record));
        old.map(|Item(old)| {
            self.forget(&old, expires);
            old
        })
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Arc<Record>> {
        let Item(old) = self.map.remove(key)?;
        self.forget(&old, None);
        Some(old)
    }

    /// The keys whose time has come by `now`, earliest first.
    pub(crate) fn due(&self, now: Millis) -> impl Iterator<Item = &Arc<Record>> {
        let expired = self.expiries.iter().take_while(move |(at, _)| *at <= now);
        expired.filter_map(|(_, key)| self.find(key))
    }

    pub(crate) fn next_expiry(&self) -> Option<Millis> {
        self.expiries.get_min().map(|(at, _)| *at)
    }

    /// Takes a replaced record out of the sums; `kept` is the expiry its key now has.
    fn forget(&mut self, old: &Record, kept: Option<Millis>) {
        self.bytes -= old.bytes();
        if let Some(expires) = old.expires
            && kept != Some(expires)
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

// === impl Item ===

impl Borrow<[u8]> for Item {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Item) -> Ordering {
        self.0.key.cmp(&other.0.key)
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Item {}

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
