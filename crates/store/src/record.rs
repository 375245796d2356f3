//! One value of one key, as it was committed.

use bytes::Bytes;

use crate::{Attachment, Millis, Put, Revision, SealId, mmap_value};

/// One committed version of a key. Immutable and shared: the map, the history and every reader hold the
/// same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key it is stored under.
    pub key: Bytes,
    /// The value; if the put has a stamp offset, the revision's digits are already inserted.
    pub value: Bytes,
    /// The revision that created the key (etcd: `create_revision`).
    pub created: Revision,
    /// The revision that wrote this version (etcd: `mod_revision`).
    pub modified: Revision,
    /// Number of puts since `created`, starting at 1.
    pub version: u64,
    /// When maintenance deletes it.
    pub expires: Option<Millis>,
    /// In-memory data that the writer attached to the value.
    pub attachment: Attachment,
    /// What sealed the stored bytes of this version.
    pub seal: SealId,
}

impl Record {
    /// The first version of a key, as `put` writes it at `revision`.
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
            attachment: put.attachment,
            seal: put.sealed.map(|sealed| sealed.seal).unwrap_or_default(),
        }
    }

    /// Turns the record into the next version of `old`. All versions of a key share one allocation of the key.
    pub(crate) fn succeed(&mut self, old: &Record) {
        self.key = old.key.clone();
        self.created = old.created;
        self.version = old.version + 1;
    }

    /// Size of the key and the value.
    pub(crate) fn bytes(&self) -> u64 {
        (self.key.len() + self.value.len()) as u64
    }
}

/// The value with the revision's digits inserted at `offset`.
fn stamped(value: &[u8], offset: u32, revision: Revision) -> Bytes {
    let digits = revision.to_string();
    let (before, after) = value.split_at(offset as usize);
    mmap_value::concat(&[before, digits.as_bytes(), after])
}
