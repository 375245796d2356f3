//! Engines: who keeps what was decided.
//!
//! An engine must never show or answer anything itself; the sequencer does, after the engine has returned.
//! Start reading at [`Log`]; `memory.rs` is the smallest engine, `file/` the one that lasts.

pub(crate) mod file;
pub(crate) mod memory;

use std::{fmt::Debug, path::PathBuf};

use crate::{Error, Millis, Revision, batch::Batch};

/// The keeping of all commits, in their order. Called by one thread at a time, one batch after the other;
/// the next batch may be decided during a call, on top of the one that is being kept.
///
/// These are the engines of which the store itself owns the order: `Batch::decide` checks the compares
/// against the newest draft and gives out the revisions. Where a remote cluster owns the order, the same
/// stages serve with deciding and keeping exchanged: such an engine sends each proposal with its compares,
/// takes the revisions and refusals that come back as the outcomes, and applies to the draft, by
/// `Draft::apply` and in revision order, every entry of the remote log up to the last of its own, those of
/// other writers included; it then has nothing left to append. It sends several batches ahead instead of
/// deciding ahead. Because a value is stamped when it is applied, a revision that is learned late is early
/// enough. For what others write while nothing is proposed here, it queues an empty commit for itself.
pub(crate) trait Log: Debug + Send {
    /// Returns once the accepted transactions of a decided batch, at least one, are durable; `last` is the
    /// newest revision among them. After an error nothing of the batch is published and `append` is not called
    /// again.
    fn append(&mut self, batch: &mut Batch, last: Revision) -> Result<(), Error>;

    /// Whether batches are to come with their accepted transactions laid out as a frame.
    fn keeps_frames(&self) -> bool {
        false
    }

    /// Makes durable that the past below `revision` is forgotten, at a time when `current` is the newest.
    fn compact(&mut self, revision: Revision, current: Revision, time: Millis) -> Result<(), Error>;

    /// Takes out of the log the files that hold nothing above `revision`, because an image of that revision
    /// is durable. The caller disposes of them in the returned order.
    fn release(&mut self, revision: Revision) -> Vec<PathBuf>;

    /// The bytes a reopening would replay.
    fn bytes(&self) -> u64;
}
