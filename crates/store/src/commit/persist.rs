//! Persist, the second stage: appends a batch to the log in one durable write. After a failed write nothing is
//! written any more, and the store is read-only, unless the disk was full.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    Error, Revision,
    commit::{Outcome, evaluate::EvaluatedBatch},
    log::{Log, SpaceReport, WriteBatch},
    shared::Shared,
};

/// Owner of the log. Dropping it, by closing or by a panic, ends the watchers.
#[derive(Debug)]
pub(crate) struct Persister {
    shared: Arc<Shared>,
    log: Box<dyn Log>,
    /// Buffer of the last written batch, for the next one that is opened.
    spare: WriteBatch,
}

impl Persister {
    pub(super) fn new(shared: Arc<Shared>, log: Box<dyn Log>) -> Persister {
        Persister {
            shared,
            spare: log.new_batch(),
            log,
        }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(super) fn take_spare(&mut self) -> WriteBatch {
        mem::take(&mut self.spare)
    }

    /// Makes the batch durable, unless an earlier one could not be.
    pub(super) fn persist(&mut self, batch: &mut EvaluatedBatch) -> Result<(), Error> {
        let mut writes = mem::take(&mut batch.writes);
        let written = self.append(&mut writes);
        let accepted = writes.count();
        self.spare = writes;
        written.inspect(|()| self.count(accepted, &batch.outcomes))
    }

    /// Makes durable that the history below `revision` is compacted; `current` is the newest revision.
    pub(super) fn persist_compaction(&mut self, revision: Revision, current: Revision) -> Result<(), Error> {
        self.shared.check_writable()?;
        let time = (self.shared.config.now)();
        let written = self.log.compact(revision, current, time);
        self.finish_write(written)
    }

    /// Takes the files that hold nothing above `revision` out of the log, oldest first.
    pub(super) fn release(&mut self, revision: Revision) -> Vec<PathBuf> {
        self.log.release(revision)
    }

    /// Looks for free space on the log's disk.
    pub(super) fn check_space(&mut self) -> Result<SpaceReport, Error> {
        self.shared.check_writable()?;
        let checked = self.log.check_space();
        if let Err(error) = &checked {
            self.fail(error);
        }
        checked
    }

    /// Records that everything persisted was acknowledged.
    pub(super) fn mark_acknowledged(&mut self) {
        self.log.mark_acknowledged();
    }

    fn append(&mut self, writes: &mut WriteBatch) -> Result<(), Error> {
        self.shared.check_writable()?;
        if writes.is_empty() {
            return Ok(());
        }
        let written = self.log.append(writes);
        self.finish_write(written)
    }

    /// Records the size of the log, or the failure that makes the store read-only.
    fn finish_write(&self, written: Result<(), Error>) -> Result<(), Error> {
        match &written {
            Ok(()) => self.shared.counters.log_bytes.store(self.log.bytes(), Relaxed),
            Err(error) => self.fail(error),
        }
        written
    }

    /// A full disk is survived; after any other failure it is unknown what the medium holds.
    fn fail(&self, error: &Error) {
        if !error.is_no_space() {
            tracing::error!(%error, "a write failed, the store is read-only from now on");
            self.shared.stop_writing(error);
        }
    }

    fn count(&self, accepted: u32, outcomes: &[Outcome]) {
        let counters = &self.shared.counters;
        let rejected = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        counters.commits.fetch_add(accepted.into(), Relaxed);
        counters.conflicts.fetch_add(rejected as u64, Relaxed);
        counters.batch_txns.record(outcomes.len() as u64);
    }
}

impl Drop for Persister {
    fn drop(&mut self) {
        self.shared.changes.close();
    }
}
