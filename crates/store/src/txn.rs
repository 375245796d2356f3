//! Transactions: compares and the operations they guard, applied all or nothing.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;

use crate::index::Index;
use crate::{Attachment, Error, Millis, Record, Revision, SealedValue};

/// Compares and operations that take effect together or not at all. All operations share one revision.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// All of these must hold when the transaction is evaluated.
    pub compares: Vec<Compare>,
    /// The operations. A key may appear once.
    pub ops: Vec<Op>,
}

/// Condition on one key.
#[derive(Clone, Debug)]
pub enum Compare {
    /// The key exists and this revision wrote its value.
    Modified {
        /// The key to look at.
        key: Bytes,
        /// The revision that must have written the current value.
        revision: Revision,
    },
    /// The key does not exist.
    Absent {
        /// The key to look at.
        key: Bytes,
    },
    /// The key exists.
    Present {
        /// The key to look at.
        key: Bytes,
    },
    /// No key with this prefix was written after a revision. A key that was deleted since does not count.
    Unchanged {
        /// The prefix of the keys to look at.
        prefix: Bytes,
        /// The last revision that may have written one of them.
        since: Revision,
    },
}

/// Operation on one key.
#[derive(Clone, Debug)]
pub enum Op {
    /// Create or replace a key.
    Put(Put),
    /// Remove a key. Removing an absent key changes nothing.
    Delete {
        /// The key to remove.
        key: Bytes,
    },
}

/// A new value for a key. The store keeps the passed buffers without copying them, so pass buffers that hold nothing
/// else.
#[derive(Clone, Debug, Default)]
pub struct Put {
    /// The key to write.
    pub key: Bytes,
    /// The value, without the revision if `stamp` is set.
    pub value: Bytes,
    /// The byte offset in `value` at which the decimal digits of the commit's revision are inserted.
    pub stamp: Option<u32>,
    /// When maintenance deletes the key, unless a later put changes the expiry.
    pub expires: Option<Millis>,
    /// In-memory data attached to the value.
    pub attachment: Attachment,
    /// What is stored instead of the value; set by the store, by its [`crate::ValueTransformer`].
    pub sealed: Option<SealedValue>,
}

/// Result of a committed transaction.
#[derive(Clone, Debug)]
pub struct TxnResponse {
    /// The revision it was assigned, or the current one if it changed nothing.
    pub revision: Revision,
    /// For each operation the record it wrote; none for a delete.
    pub records: Vec<Option<Arc<Record>>>,
}

// === impl Txn ===

/// Above this many operations a hash set finds duplicate keys; below, comparing each pair is cheaper.
const PAIRWISE_OPS: usize = 8;

/// The largest transaction the log format can hold, because its lengths have 32 bits.
const FORMAT_BYTES: u64 = 1 << 30;

/// Overhead counted for each transaction and each operation, besides keys and values.
const FRAMING_BYTES: u64 = 32;

impl Txn {
    /// Checks everything that does not depend on the state of the store.
    pub(crate) fn validate(&self, max_bytes: u64) -> Result<(), Error> {
        self.check_keys()?;
        self.ops.iter().try_for_each(Op::check_stamp)?;
        let (bytes, limit) = (self.bytes(), max_bytes.min(FORMAT_BYTES));
        match bytes > limit {
            true => Err(Error::TooLarge { bytes, limit }),
            false => Ok(()),
        }
    }

    /// Upper bound of the transaction's size in the log.
    pub(crate) fn bytes(&self) -> u64 {
        FRAMING_BYTES + self.ops.iter().map(Op::bytes).sum::<u64>()
    }

    /// Whether it writes a value. One that does not makes the map smaller, or leaves it as it is.
    pub(crate) fn has_puts(&self) -> bool {
        self.ops.iter().any(|op| matches!(op, Op::Put(_)))
    }

    fn check_keys(&self) -> Result<(), Error> {
        let duplicate = if self.ops.len() <= PAIRWISE_OPS {
            let mut pairs = self.ops.iter().enumerate();
            pairs.find(|(i, op)| self.ops[..*i].iter().any(|other| other.key() == op.key()))
        } else {
            let mut seen = HashSet::with_capacity(self.ops.len());
            let mut ops = self.ops.iter().enumerate();
            ops.find(|(_, op)| !seen.insert(op.key()))
        };
        match duplicate {
            Some((_, op)) => Err(Error::Duplicate {
                key: op.key().clone(),
            }),
            None => Ok(()),
        }
    }
}

// === impl Compare ===

impl Compare {
    pub(crate) fn key(&self) -> &Bytes {
        match self {
            Compare::Modified { key, .. } | Compare::Absent { key } | Compare::Present { key } => key,
            Compare::Unchanged { prefix, .. } => prefix,
        }
    }

    /// The record that the compare is about: that of its key, or the first with its prefix that has changed.
    pub(crate) fn current<'a>(&self, index: &'a Index) -> Option<&'a Arc<Record>> {
        match self {
            Compare::Unchanged { prefix, since } => {
                index.prefix(prefix).find(|record| record.modified > *since)
            }
            _ => index.find(self.key()),
        }
    }

    /// Whether it holds, with [`Compare::current`].
    pub(crate) fn holds(&self, current: Option<&Arc<Record>>) -> bool {
        match (self, current) {
            (Compare::Modified { revision, .. }, Some(record)) => record.modified == *revision,
            (Compare::Absent { .. } | Compare::Unchanged { .. }, current) => current.is_none(),
            (Compare::Present { .. }, current) => current.is_some(),
            (Compare::Modified { .. }, None) => false,
        }
    }
}

// === impl Put ===

impl Put {
    /// What is stored in files.
    pub(crate) fn stored_value(&self) -> &Bytes {
        self.sealed.as_ref().map_or(&self.value, |sealed| &sealed.bytes)
    }
}

// === impl Op ===

impl Op {
    pub(crate) fn key(&self) -> &Bytes {
        match self {
            Op::Put(put) => &put.key,
            Op::Delete { key } => key,
        }
    }

    fn bytes(&self) -> u64 {
        let payload = match self {
            Op::Put(put) => put.key.len() + put.stored_value().len(),
            Op::Delete { key } => key.len(),
        };
        FRAMING_BYTES + payload as u64
    }

    fn check_stamp(&self) -> Result<(), Error> {
        match self {
            Op::Put(Put {
                value,
                stamp: Some(offset),
                ..
            }) if *offset as usize > value.len() => Err(Error::Stamp {
                offset: *offset,
                bytes: value.len(),
            }),
            _ => Ok(()),
        }
    }
}
