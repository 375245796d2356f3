//! Log engines: where committed transactions are stored.
//!
//! An engine never publishes or replies itself; the commit path does, after the engine has returned. Start reading
//! at [`Log`]; `memory.rs` is the smallest engine, `file/` the durable one.

pub(crate) mod file;
pub(crate) mod memory;

use std::{fmt::Debug, path::PathBuf};

use crate::{
    Error, Millis, Revision, Txn,
    log::file::{block::Block, frame},
};

/// The store of all commits, in order. Called by one thread at a time, one batch after the other; the next batch may
/// be evaluated during a call, on top of the one that is being appended.
///
/// These are the engines of a store that assigns the order itself: `Evaluator::evaluate` checks the compares against
/// the draft and assigns the revisions. Where a remote cluster assigns the order, the engine is a
/// [`crate::RemoteLog`] instead.
pub(crate) trait Log: Debug + Send {
    /// An empty batch, encoded as this engine stores it.
    fn new_batch(&self) -> WriteBatch {
        WriteBatch::default()
    }

    /// Returns once the transactions of `batch`, at least one, are durable. After an error nothing of the batch is
    /// published. After [`Error::NoSpace`] or [`Error::OutOfFiles`] the log is as it was before the call; after any other error `append` is not
    /// called again.
    fn append(&mut self, batch: &mut WriteBatch) -> Result<(), Error>;

    /// Makes durable that the history below `revision` is compacted, while `current` is the newest revision.
    fn compact(&mut self, revision: Revision, current: Revision, time: Millis) -> Result<(), Error>;

    /// Takes the files that hold nothing above `revision` out of the log, because a snapshot file of that revision is
    /// durable. The caller removes or recycles them in the returned order.
    fn release(&mut self, revision: Revision) -> Vec<PathBuf>;

    /// The bytes that opening the store would replay.
    fn bytes(&self) -> u64;

    /// Looks for free space, so that writes that were rejected for lack of it are accepted again. Called by
    /// maintenance.
    fn check_space(&mut self) -> Result<SpaceReport, Error> {
        Ok(SpaceReport::default())
    }

    /// Records that everything appended was acknowledged. Called when there is nothing else to do.
    fn mark_acknowledged(&mut self) {}
}

/// What maintenance has to know of the disk's space.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceReport {
    /// The disk is full, and a snapshot file, for which there is space, would free some of the log.
    pub(crate) snapshot_file_helps: bool,
}

/// The accepted transactions of one batch, encoded for the engine while they are evaluated. It knows nothing of
/// callers and outcomes. Buffers are reused from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct WriteBatch {
    time: Millis,
    count: u32,
    /// The newest revision in the batch.
    last: Revision,
    /// Whether a transaction writes a value; a batch without any may use the space that is kept for deletes.
    has_puts: bool,
    /// A frame without checksums, for an engine that stores frames.
    frame: Option<Block>,
}

/// A batch is closed once its transactions hold this many bytes; a larger transaction is a batch of its own.
pub(crate) const BATCH_BYTES: u64 = 4 << 20;

impl WriteBatch {
    /// Clears the batch; `time` is the commit time of its transactions.
    pub(crate) fn begin(&mut self, time: Millis) {
        self.time = time;
        self.count = 0;
        self.has_puts = false;
        if let Some(block) = &mut self.frame {
            frame::begin(block);
        }
    }

    /// Adds a transaction that was assigned `revision`.
    pub(crate) fn push(&mut self, revision: Revision, txn: &Txn) {
        self.count += 1;
        self.last = revision;
        self.has_puts |= txn.has_puts();
        if let Some(block) = &mut self.frame {
            frame::put_commit(block, revision, txn);
        }
    }

    /// The number of transactions.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}
