//! Transactions: what must hold, and what is then changed, all or nothing.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;

use crate::{Error, Memo, Millis, Record, Revision};

/// Compares and operations that take effect together or not at all. All operations share one revision.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    /// All of these must hold at the moment of the commit.
    pub compares: Vec<Compare>,
    /// What is then done. A key may appear once.
    pub ops: Vec<Op>,
}

/// A condition on one key.
#[derive(Clone, Debug)]
pub enum Compare {
    /// The key exists and this revision wrote its value.
    Modified {
        /// The key to look at.
        key: Bytes,
        /// The revision that must have written it.
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
}

/// One change.
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

/// A new value for a key. The bytes are kept as they are handed in, without a copy, so hand in a buffer
/// that holds nothing else.
#[derive(Clone, Debug, Default)]
pub struct Put {
    /// Where the value goes.
    pub key: Bytes,
    /// The value, without the revision if `stamp` is set.
    pub value: Bytes,
    /// The byte offset in `value` at which the decimal digits of the commit's revision are inserted.
    pub stamp: Option<u32>,
    /// When upkeep removes the key again, unless a later put says otherwise.
    pub expires: Option<Millis>,
    /// What the writer knows of the value.
    pub memo: Memo,
}

/// What a transaction did.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision it took, or the current one if it changed nothing.
    pub revision: Revision,
    /// For each operation the record it left behind; none for a delete.
    pub records: Vec<Option<Arc<Record>>>,
}

// === impl Txn ===

/// Above this many operations a set finds doubled keys; below, comparing each pair is cheaper.
const PAIRWISE_OPS: usize = 8;

/// The most a log can hold in one piece, because its lengths have 32 bits.
const FORMAT_BYTES: u64 = 1 << 30;

/// What is counted for each transaction and each operation besides keys and values.
const FRAMING_BYTES: u64 = 32;

impl Txn {
    /// Checks what can be told without looking at the store.
    pub(crate) fn validate(&self, max_bytes: u64) -> Result<(), Error> {
        self.check_keys()?;
        self.ops.iter().try_for_each(Op::check_stamp)?;
        let (bytes, limit) = (self.bytes(), max_bytes.min(FORMAT_BYTES));
        match bytes > limit {
            true => Err(Error::TooLarge { bytes, limit }),
            false => Ok(()),
        }
    }

    /// An upper bound of what the transaction takes in a log.
    pub(crate) fn bytes(&self) -> u64 {
        FRAMING_BYTES + self.ops.iter().map(Op::bytes).sum::<u64>()
    }

    fn check_keys(&self) -> Result<(), Error> {
        let doubled = if self.ops.len() <= PAIRWISE_OPS {
            let mut pairs = self.ops.iter().enumerate();
            pairs.find(|(i, op)| self.ops[..*i].iter().any(|other| other.key() == op.key()))
        } else {
            let mut seen = HashSet::with_capacity(self.ops.len());
            let mut ops = self.ops.iter().enumerate();
            ops.find(|(_, op)| !seen.insert(op.key()))
        };
        match doubled {
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
        }
    }

    pub(crate) fn holds(&self, current: Option<&Arc<Record>>) -> bool {
        match (self, current) {
            (Compare::Modified { revision, .. }, Some(record)) => record.modified == *revision,
            (Compare::Absent { .. }, current) => current.is_none(),
            (Compare::Present { .. }, current) => current.is_some(),
            (Compare::Modified { .. }, None) => false,
        }
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
            Op::Put(put) => put.key.len() + put.value.len(),
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
