//! One value of one key, as it was committed.

use bytes::Bytes;

use crate::{Millis, Put, Revision};

/// One committed version of a key. Immutable and shared: the map, the history and every reader hold the
/// same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key it is stored under.
    pub key: Bytes,
    /// The bytes, with the revision already in its place if the put asked for a stamp.
    pub value: Bytes,
    /// The revision at which the key last came into being.
    pub created: Revision,
    /// The revision that wrote this version.
    pub modified: Revision,
    /// How many puts there were since `created`, starting at 1.
    pub version: u64,
    /// When upkeep removes it.
    pub expires: Option<Millis>,
}

impl Record {
    /// What `put` leaves behind at `revision` where `old` was before.
    pub(crate) fn from_put(put: &Put, revision: Revision, old: Option<&Record>) -> Record {
        Record {
            // One key allocation serves all versions of a key.
            key: old.map_or_else(|| put.key.clone(), |record| record.key.clone()),
            value: stamped(put, revision),
            created: old.map_or(revision, |record| record.created),
            modified: revision,
            version: old.map_or(1, |record| record.version + 1),
            expires: put.expires,
        }
    }

    /// The bytes this record answers for: its key and its value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The value with the revision's digits inserted where the put asks for them.
fn stamped(put: &Put, revision: Revision) -> Bytes {
    let Some(offset) = put.stamp else {
        return put.value.clone();
    };
    let digits = revision.to_string();
    let (before, after) = put.value.split_at(offset as usize);
    let mut value = Vec::with_capacity(put.value.len() + digits.len());
    value.extend_from_slice(before);
    value.extend_from_slice(digits.as_bytes());
    value.extend_from_slice(after);
    value.into()
}
