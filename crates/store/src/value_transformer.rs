//! [`ValueTransformer`]: encryption of values where they are stored. The map has plain values; the files of a store, and
//! what a remote engine stores, have sealed ones.

use std::fmt::Debug;

use bytes::Bytes;

use crate::{Error, Op, Txn};

/// Seals values before they are stored and opens stored values. Called by several threads at once.
pub trait ValueTransformer: Debug + Send + Sync {
    /// Whether any value may have to be sealed. If not, the store only opens values.
    fn is_active(&self) -> bool;

    /// The sealed form of a value; `None` if the value is stored as it is. `authenticated` is bound to the sealed value: it
    /// can only be opened with the same. An error rejects the transaction.
    fn seal(&self, key: &[u8], authenticated: &[u8], value: &[u8]) -> Result<Option<SealedValue>, Error>;

    /// Reverts [`ValueTransformer::seal`]. Returns a value that is not sealed as it is.
    fn open(&self, key: &[u8], authenticated: &[u8], value: Bytes) -> Result<OpenedValue, Error>;

    /// What [`ValueTransformer::seal`] would seal the value of a key with now. A value that was sealed otherwise should be
    /// written again even if it has not changed.
    fn current_seal(&self, key: &[u8]) -> SealId;
}

/// Number of the provider and key that sealed a value, the same for all servers and at all times. The store has it in the
/// record of the value, so that it always describes the stored bytes of that version. The default is that of values that
/// are stored as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SealId(u64);

/// A value as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedValue {
    /// The sealed bytes.
    pub bytes: Bytes,
    /// What sealed them.
    pub seal: SealId,
}

/// A value as it was before it was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedValue {
    /// The plain bytes.
    pub bytes: Bytes,
    /// What had sealed them.
    pub seal: SealId,
}

impl SealId {
    /// Of values that are stored as they are.
    pub const NONE: SealId = SealId(0);

    /// The seal with this number, which is not zero.
    pub fn new(number: u64) -> SealId {
        SealId(number.max(1))
    }
}

/// Seals the values of a transaction for the files of a store.
pub(crate) fn seal(transformer: &dyn ValueTransformer, txn: &mut Txn) -> Result<(), Error> {
    for op in &mut txn.ops {
        if let Op::Put(put) = op {
            put.sealed = transformer.seal(&put.key, &put.key, &put.value)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
