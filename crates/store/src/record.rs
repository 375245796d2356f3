//! One value of one key, as it was committed.

use bytes::Bytes;

use crate::{Memo, Millis, Put, Revision, large};

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
    /// What its writer knows of the value.
    pub memo: Memo,
}

impl Record {
    /// What `put` leaves behind at `revision` if nothing was there before.
    pub(crate) fn first(put: Put, revision: Revision) -> Record {
        let value = match put.stamp {
            None => put.value,
            Some(offset) => stamped(&put.value, offset, revision),
        };
        Record {
            key: put.key,
            value,
            created: revision,
            modified: revision,
            version: 1,
            expires: put.expires,
            memo: put.memo,
        }
    }

    /// Makes it the next version of what `old` was. One key allocation serves all versions of a key.
    pub(crate) fn succeed(&mut self, old: &Record) {
        self.key = old.key.clone();
        self.created = old.created;
        self.version = old.version + 1;
    }

    /// The bytes this record answers for: its key and its value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The value with the revision's digits inserted at `offset`.
fn stamped(value: &[u8], offset: u32, revision: Revision) -> Bytes {
    let digits = revision.to_string();
    let (before, after) = value.split_at(offset as usize);
    large::joined(&[before, digits.as_bytes(), after])
}
