//! Engines: who decides the order of transactions and keeps them.
//!
//! An engine must never show or answer anything itself; the sequencer does, after the engine has returned.
//! Start reading at [`Log`]; `memory.rs` is the smallest engine, `file/` the one that lasts.

pub(crate) mod file;
pub(crate) mod memory;

use std::{fmt::Debug, path::PathBuf};

use crate::{
    Error, Revision,
    batch::{Batch, Draft},
};

/// The order of all commits, and their keeping. Called by one sequencer only, one call at a time.
///
/// An engine that owns the order (memory, file) lets [`Batch::decide`] check the compares against the draft
/// and give out the next revisions, then keeps what was accepted. An engine for which a remote cluster owns
/// the order fits as well: it sends each proposal there with its compares, takes the revisions and refusals
/// that come back as the outcomes, and applies to the draft, by [`Draft::apply`] and in revision order,
/// every entry of the remote log up to the last of its own, those of other writers included. Because a
/// value is stamped when it is applied, a revision that is learned late is early enough. For what others
/// write while nothing is proposed here, such an engine queues an empty commit for its own sequencer.
pub(crate) trait Log: Debug + Send {
    /// Decides every proposal, in order, and returns once the accepted ones are durable. After an error
    /// nothing of the batch is published and `commit` is not called again.
    fn commit(&mut self, batch: &mut Batch) -> Result<(), Error>;

    /// Makes durable that the past below `revision` is forgotten; `draft` is the current state.
    fn compact(&mut self, revision: Revision, draft: &Draft) -> Result<(), Error>;

    /// Takes out of the log the files that hold nothing above `revision`, because an image of that revision
    /// is durable. The caller disposes of them in the returned order.
    fn release(&mut self, revision: Revision) -> Vec<PathBuf>;

    /// The bytes a reopening would replay.
    fn bytes(&self) -> u64;
}
