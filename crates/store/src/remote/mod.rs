//! Remote engines: a cluster that assigns the order itself, and the replica of it that this store publishes.
//!
//! ```text
//!  Store::commit -> Proposer::commit -> RemoteLog::propose -> cluster
//!                        |                                      |
//!                        | waits for the revision               | every change, in order
//!                        v                                      v
//!                   published head <- Replica::apply <- RemoteLog's own task
//! ```
//!
//! Reads, watches, history and forks are those of every store: they see the published head. Only two things differ. The
//! head is advanced by what the cluster reports, own writes included; and a head may lag behind the cluster, so a
//! linearizable read first gets the confirmed revision ([`crate::Store::confirm`]).
//!
//! What it must never do: acknowledge a write before the replica shows it, or guess the outcome of one.
//!
//! Start reading at [`RemoteLog`], then `propose.rs` and `replica.rs`; `retry.rs` is about values that cannot be decoded.

pub(crate) mod propose;
pub(crate) mod replica;
mod retry;

use std::{fmt::Debug, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;

use crate::{Error, Revision};
pub use replica::Replica;

/// Result of an operation of a [`RemoteLog`], as a future.
pub type RemoteFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// A cluster that stores the log, and the tasks that bring its changes to a [`Replica`]. The futures need no particular
/// runtime. Dropping it ends its tasks.
pub trait RemoteLog: Debug + Send + Sync {
    /// Executes a transaction. After [`RemoteFailure::Unknown`] it may have been executed, or may still be; after any
    /// other error it was not and will not be. Several may be under way at once.
    fn propose(&self, txn: RemoteTxn) -> RemoteFuture<'_, RemoteOutcome>;

    /// A revision that is not below that of any write that was acknowledged, by any server, before this call.
    fn confirmed_revision(&self) -> RemoteFuture<'_, Revision>;

    /// Fails while the cluster does not accept writes; the error names the cause.
    fn check_health(&self) -> Result<(), Error>;

    /// Ends the tasks. No change is applied to the replica afterwards.
    fn close(&self) -> RemoteFuture<'_, ()>;
}

/// A transaction in the keys and values of the cluster.
#[derive(Clone, Debug, Default)]
pub struct RemoteTxn {
    /// All of these must hold.
    pub compares: Vec<RemoteCompare>,
    /// The operations.
    pub ops: Vec<RemoteOp>,
}

/// Condition on one key of the cluster.
#[derive(Clone, Debug)]
pub struct RemoteCompare {
    /// The key to look at.
    pub key: Bytes,
    /// What must be true of it.
    pub condition: RemoteCondition,
}

/// What a compare requires.
#[derive(Clone, Copy, Debug)]
pub enum RemoteCondition {
    /// The key exists and this revision wrote its value.
    Modified(Revision),
    /// The key does not exist.
    Absent,
    /// The key exists.
    Present,
    /// The key is a prefix, and no key with it was written after this revision.
    Unchanged(Revision),
}

/// Operation on one key of the cluster.
#[derive(Clone, Debug)]
pub enum RemoteOp {
    /// Create or replace a key.
    Put {
        /// The key to write.
        key: Bytes,
        /// The encoded value.
        value: Bytes,
        /// After this time the cluster deletes the key, not before.
        ttl: Option<Duration>,
    },
    /// Remove a key, if it exists.
    Delete {
        /// The key to remove.
        key: Bytes,
    },
    /// Write the value that a key has once more: it gets a new revision and keeps its expiry. A compare guarantees that
    /// the key exists.
    Touch {
        /// The key to write.
        key: Bytes,
    },
}

/// What became of a transaction.
#[derive(Clone, Debug)]
pub enum RemoteOutcome {
    /// It was executed.
    Committed {
        /// Its revision, or the current one if it changed nothing.
        revision: Revision,
    },
    /// A compare did not hold; nothing was written.
    Rejected {
        /// Which compare failed first.
        index: usize,
        /// What the compared key held.
        current: Option<RemoteEntry>,
        /// The revision at which it was evaluated.
        revision: Revision,
    },
}

/// A key and its value in the cluster.
#[derive(Clone, Debug)]
pub struct RemoteEntry {
    /// The key.
    pub key: Bytes,
    /// The encoded value.
    pub value: Bytes,
    /// The revision that created the key.
    pub created: Revision,
    /// The revision that wrote the value.
    pub modified: Revision,
    /// Number of puts since `created`.
    pub version: u64,
}

/// One change of the cluster's log.
#[derive(Clone, Debug)]
pub enum RemoteChange {
    /// A key was written.
    Put(RemoteEntry),
    /// A key was deleted.
    Delete {
        /// The key.
        key: Bytes,
        /// The revision that deleted it.
        revision: Revision,
    },
}

/// Why a cluster did not execute an operation, by what a caller does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteFailure {
    /// It was not executed; later it may be.
    Unavailable,
    /// The cluster's quota of space is used up.
    NoSpace,
    /// The cluster rejects the operation, such as for its size.
    Rejected,
    /// It may have been executed, or may still be.
    Unknown,
}

impl RemoteChange {
    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        match self {
            RemoteChange::Put(entry) => entry.modified,
            RemoteChange::Delete { revision, .. } => *revision,
        }
    }
}

impl RemoteCondition {
    /// Whether it holds for a key that was last written at `modified`, or does not exist. For a prefix, `modified` is of a
    /// key that was written too late.
    pub fn holds(self, modified: Option<Revision>) -> bool {
        match self {
            RemoteCondition::Modified(revision) => modified == Some(revision),
            RemoteCondition::Absent | RemoteCondition::Unchanged(_) => modified.is_none(),
            RemoteCondition::Present => modified.is_some(),
        }
    }
}
