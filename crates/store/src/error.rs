//! Errors of the store: one variant per case that a caller handles differently.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use rustix::io::Errno;

use crate::{Record, RemoteFailure, Revision};

/// Error of a store operation. `Clone`, because one failed batch fails every caller in it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The history at this revision is compacted; the caller starts again from a new snapshot.
    #[error("revision {requested} is compacted, the oldest kept is {compacted}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can still be read.
        compacted: Revision,
    },
    /// The store has not reached this revision.
    #[error("revision {requested} is in the future, the newest is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The newest published revision.
        current: Revision,
    },
    /// A compare did not hold; nothing was written.
    #[error("compare {index} does not hold")]
    Precondition {
        /// Which compare of the transaction failed first.
        index: usize,
        /// The record of the compared key when the transaction was evaluated.
        current: Option<Arc<Record>>,
    },
    /// Two operations of one transaction name the same key.
    #[error("key {key:?} appears twice in one transaction")]
    Duplicate {
        /// The key.
        key: Bytes,
    },
    /// The stamp offset lies outside the value.
    #[error("stamp offset {offset} is outside the value of {bytes} bytes")]
    Stamp {
        /// The requested offset.
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
    /// The codec cannot decode what an engine stores under a key, or cannot encode a value.
    #[error("cannot decode the value of {key:?}: {reason}")]
    Undecodable {
        /// The engine's key.
        key: Bytes,
        /// Why not.
        reason: String,
    },
    /// A remote cluster did not execute an operation, or it is not known whether it did.
    #[error("{message}")]
    Remote {
        /// What the caller can do about it.
        failure: RemoteFailure,
        /// The cluster's own text.
        message: String,
    },
    /// The store is closed.
    #[error("store is closed")]
    Closed,
    /// An earlier write failed, so the store rejects writes; reads and watches continue.
    #[error("store is read-only after a failed write: {cause}")]
    ReadOnly {
        /// The first failure, returned to every later writer.
        cause: Arc<Error>,
    },
    /// A system call failed.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// The attempted operation, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The disk is full, or a quota is used up. Reads, watches and deletes continue, and so do other writes once there is
    /// space.
    #[error("no space left: cannot {action} {path}: {source}", path = path.display())]
    NoSpace {
        /// The attempted operation, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// The process or the machine has too many open files. As after [`Error::NoSpace`], nothing was written, and writes
    /// continue once a file can be opened.
    #[error("too many open files: cannot {action} {path}: {source}", path = path.display())]
    OutOfFiles {
        /// The attempted operation, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// Stored bytes fail their checksum or do not parse. The store never guesses what they were.
    #[error("{file} is damaged at byte {offset}: {what}; {advice}", file = file.display())]
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where the damage starts.
        offset: u64,
        /// Description of the damage.
        what: String,
        /// What the operator can do about it.
        advice: &'static str,
    },
    /// Another user can read or change a directory or file that must be private.
    #[error("{path} is not private: {what}; {advice}", path = path.display())]
    NotPrivate {
        /// The directory or file.
        path: PathBuf,
        /// Its owner or mode.
        what: String,
        /// What the operator can do about it.
        advice: &'static str,
    },
    /// Another process, or another store in this process, has the directory open.
    #[error("directory {dir} is in use by another store", dir = dir.display())]
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// A restore would overwrite something.
    #[error("directory {dir} is not empty", dir = dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
}

impl Error {
    /// The error of a system call: [`Error::NoSpace`] if more space would have helped, [`Error::OutOfFiles`] if fewer open
    /// files would have, else [`Error::Io`].
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| {
            let kind = source.kind();
            let is_out_of_files = [Errno::MFILE, Errno::NFILE]
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&source.raw_os_error());
            let source = Arc::new(source);
            match kind {
                _ if is_out_of_files => Error::OutOfFiles { action, path, source },
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                    Error::NoSpace { action, path, source }
                }
                _ => Error::Io { action, path, source },
            }
        }
    }

    /// Whether there was no space, or no file could be opened: nothing was written, and a later write may succeed.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, Error::NoSpace { .. } | Error::OutOfFiles { .. })
    }
}
