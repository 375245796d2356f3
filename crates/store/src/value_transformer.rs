//! [`ValueTransformer`]: encryption of values where they are stored. The map has plain values; the files of a store, and
//! what a codec writes to a remote engine, have sealed ones.

use std::fmt::Debug;

use bytes::Bytes;

use crate::{Error, Op, Txn};

/// Seals values before they are stored and opens stored values. Called by several threads at once.
pub trait ValueTransformer: Debug + Send + Sync {
    /// Whether any value may have to be sealed. If not, the store only opens values.
    fn is_active(&self) -> bool;

    /// The sealed form of a value; `None` if the value is stored as it is. `authenticated` is bound to the sealed value: it
    /// can only be opened with the same. An error rejects the transaction.
    fn seal(&self, key: &[u8], authenticated: &[u8], value: &[u8]) -> Result<Option<Bytes>, Error>;

    /// Reverts [`ValueTransformer::seal`]. Returns a value that is not sealed as it is.
    fn open(&self, key: &[u8], authenticated: &[u8], value: Bytes) -> Result<Bytes, Error>;

    /// Records that the value of a key is now stored in this form, for [`ValueTransformer::is_stale`]. `None` is a value that
    /// is not sealed.
    fn record(&self, key: &[u8], sealed: Option<&[u8]>);

    /// Whether the stored value of a key is not as [`ValueTransformer::seal`] would seal it now, so that it should be
    /// written again even if it has not changed.
    fn is_stale(&self, key: &[u8]) -> bool;
}

/// Seals the values of a transaction for the files of a store. Returns the keys, with the sealed values.
pub(crate) fn seal(transformer: &dyn ValueTransformer, txn: &mut Txn) -> Result<Vec<SealedKey>, Error> {
    let mut sealed = Vec::with_capacity(txn.ops.len());
    for op in &mut txn.ops {
        match op {
            Op::Put(put) => {
                put.sealed = transformer.seal(&put.key, &put.key, &put.value)?;
                sealed.push((put.key.clone(), put.sealed.clone()));
            }
            // There is nothing left to be stale.
            Op::Delete { key } => sealed.push((key.clone(), None)),
        }
    }
    Ok(sealed)
}

/// A key and the sealed form of its value; `None` if it is stored as it is.
pub(crate) type SealedKey = (Bytes, Option<Bytes>);
