//! What a store can meet: one variant per thing a caller would do differently.

use std::{io, path::PathBuf, sync::Arc};

use bytes::Bytes;

use crate::{Record, Revision};

/// Why a call failed. It clones, because one failed batch answers many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The history at this revision is gone; start again from a fresh snapshot.
    #[error("revision {asked} is compacted, the oldest kept is {compacted}")]
    Compacted {
        /// The revision that was asked for.
        asked: Revision,
        /// The oldest revision that can still be read.
        compacted: Revision,
    },
    /// The store has not reached this revision.
    #[error("revision {asked} is in the future, the newest is {current}")]
    Future {
        /// The revision that was asked for.
        asked: Revision,
        /// The newest published revision.
        current: Revision,
    },
    /// A compare did not hold; nothing was written.
    #[error("compare {index} does not hold")]
    Precondition {
        /// Which compare of the transaction failed first.
        index: usize,
        /// The record under the compared key as it was at that moment.
        current: Option<Arc<Record>>,
    },
    /// Two operations of one transaction name the same key.
    #[error("key {key:?} appears twice in one transaction")]
    Duplicate {
        /// The key in question.
        key: Bytes,
    },
    /// The place for the revision lies outside the value.
    #[error("stamp offset {offset} is outside the value of {bytes} bytes")]
    Stamp {
        /// The offset that was asked for.
        offset: u32,
        /// The length of the value.
        bytes: usize,
    },
    /// The transaction is larger than the store accepts.
    #[error("transaction of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// The transaction's size.
        bytes: u64,
        /// The configured limit.
        limit: u64,
    },
    /// The store is closed.
    #[error("store is closed")]
    Closed,
    /// An earlier write failed, so nothing is written any more; reads and watches go on.
    #[error("store is read-only after a failed write: {cause}")]
    ReadOnly {
        /// The first failure, kept for every later caller.
        cause: Arc<Error>,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Stored bytes are not what was written. The store refuses to guess.
    #[error("{file} is damaged at byte {offset}: {what}; {advice}", file = file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where the damage starts.
        offset: u64,
        /// What is wrong there.
        what: String,
        /// What a person can do about it.
        advice: &'static str,
    },
    /// Another process, or another handle of this one, has the directory open.
    #[error("directory {dir} is in use by another store", dir = dir.display())]
    Locked {
        /// The directory in question.
        dir: PathBuf,
    },
    /// A restore would overwrite something.
    #[error("directory {dir} is not empty", dir = dir.display())]
    NotEmpty {
        /// The directory in question.
        dir: PathBuf,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            action,
            path,
            source: Arc::new(source),
        }
    }
}
