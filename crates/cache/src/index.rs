//! Secondary indexes on the objects of a cache: from a value to the objects that have it (client-go's `Indexer`).

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use imbl::OrdMap;
use setpoint_api::{Key, Stored};

/// The index that every cache has: by the uid of the object's controller (its controlling owner).
pub const CONTROLLER_INDEX: &str = "owner";

/// Maps an object to its values in an index (client-go's `IndexFunc`); no value leaves it out of the index.
pub type IndexFunc = fn(&Stored) -> Vec<CompactString>;

/// One index, immutable like the snapshot it belongs to.
///
/// All entries lie in one order, by value and then by key, so the objects of a value are a range. There are no
/// buckets, hence no empty ones to clean up, and a single object under a value costs one entry.
#[derive(Clone)]
pub(crate) struct Index {
    pub(crate) name: &'static str,
    values: IndexFunc,
    entries: OrdMap<(CompactString, Key), Arc<Stored>>,
}

// === impl Index ===

impl Index {
    pub(crate) fn new(name: &'static str, values: IndexFunc) -> Self {
        Self {
            name,
            values,
            entries: OrdMap::new(),
        }
    }

    /// The index by controlling owner.
    pub(crate) fn owner() -> Self {
        Self::new(CONTROLLER_INDEX, |object| {
            object
                .controller()
                .map(|owner| owner.uid.clone())
                .into_iter()
                .collect()
        })
    }

    pub(crate) fn insert(&mut self, object: &Arc<Stored>) {
        for value in (self.values)(object) {
            self.entries.insert((value, object.key().clone()), object.clone());
        }
    }

    /// Replaces an object by its new version. Most changes leave the values as they are.
    pub(crate) fn replace(&mut self, old: &Stored, new: &Arc<Stored>) {
        let values = (self.values)(new);
        for value in (self.values)(old) {
            if !values.contains(&value) {
                self.entries.remove(&(value, old.key().clone()));
            }
        }
        for value in values {
            self.entries.insert((value, new.key().clone()), new.clone());
        }
    }

    pub(crate) fn remove(&mut self, object: &Stored) {
        for value in (self.values)(object) {
            self.entries.remove(&(value, object.key().clone()));
        }
    }

    /// The objects with this value, by key.
    pub(crate) fn find(&self, value: &str) -> Vec<Arc<Stored>> {
        let start = (CompactString::from(value), Key::new("", ""));
        self.entries
            .range(start..)
            .take_while(|((own, _), _)| own == value)
            .map(|(_, object)| object.clone())
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} entries)", self.name, self.entries.len())
    }
}
