//! What a commit goes through: it is decided, then kept, which is writing, publishing and answering.
//!
//! A batch is decided on top of one that may still be being written, but nothing of it is written before that
//! one is durable, and nothing is published or answered out of order. If a write fails, every batch behind it
//! is refused, because it was decided on top of something that never came to be.

use std::{
    mem,
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    Committed, Error, Revision, Txn,
    batch::{Batch, Draft},
    head::Head,
    log::{Log, file::block::Block},
    shared::Shared,
};

/// The right to decide. There is one per store. It holds the batch that is open for proposals.
#[derive(Debug)]
pub(crate) struct Deciding {
    shared: Arc<Shared>,
    /// The state after the newest decided transaction, which may be ahead of the published one.
    draft: Draft,
    batch: Batch,
}

/// The right to write and publish. There is one per store.
#[derive(Debug)]
pub(crate) struct Keeping {
    shared: Arc<Shared>,
    log: Box<dyn Log>,
    /// An empty buffer for the next batch that is opened.
    spare: Option<Block>,
}

/// A decided batch that is next to be written.
#[derive(Debug)]
pub(crate) struct Decided {
    batch: Batch,
    /// What is published once the batch is durable.
    head: Head,
}

/// Both rights of a new store.
pub(crate) fn stages(shared: &Arc<Shared>, log: Box<dyn Log>) -> (Deciding, Keeping) {
    shared.counters.log_bytes.store(log.bytes(), Relaxed);
    let block = || log.keeps_frames().then(Block::default);
    let deciding = Deciding {
        shared: shared.clone(),
        draft: Draft::new(Head::clone(&shared.head()), 0),
        batch: Batch::new(0, block()),
    };
    let keeping = Keeping {
        shared: shared.clone(),
        spare: block(),
        log,
    };
    (deciding, keeping)
}

// === impl Deciding ===

impl Deciding {
    /// Whether nothing was proposed since the last batch was closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Whether the open batch has room for `txn`.
    pub(crate) fn has_room(&self, txn: &Txn) -> bool {
        self.batch.has_room(txn)
    }

    /// Takes `txn` into the open batch and decides it.
    pub(crate) fn propose(&mut self, txn: Txn) {
        if self.is_empty() {
            self.batch.time = (self.shared.config.now)();
            self.draft.begin(self.batch.time);
        }
        match self.shared.check_writable() {
            Ok(()) => self.batch.decide(&mut self.draft, txn),
            // Nothing can be built on what was decided after the write that failed.
            Err(error) => self.batch.refuse(error),
        }
    }

    /// Closes the open batch and opens another one.
    fn close(&mut self, spare: Option<Block>) -> Decided {
        self.draft.close(&self.shared.config.history);
        let mut next = Batch::new(0, spare);
        next.outcomes.reserve(self.batch.outcomes.len());
        Decided {
            batch: mem::replace(&mut self.batch, next),
            head: self.draft.head().clone(),
        }
    }
}

// === impl Keeping ===

/// However the keeping ends, by closing or by a panic, the watchers hear of it.
impl Drop for Keeping {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Keeping {
    /// Closes the open batch, which is then the one to be kept.
    pub(crate) fn close(&mut self, deciding: &mut Deciding) -> Decided {
        deciding.close(self.spare.take())
    }

    /// Writes, publishes, answers; in this order, so nothing is seen before it is durable. What the callers
    /// ask next is taken into the next write.
    pub(crate) fn keep(&mut self, decided: Decided, answer: impl FnOnce(Vec<Result<Committed, Error>>)) {
        let Decided { mut batch, head } = decided;
        let written = self.write(&mut batch, head.revision);
        self.spare = batch.frame;
        if let Err(error) = written {
            return answer(vec![Err(error); batch.outcomes.len()]);
        }
        let replaced = (batch.accepted > 0).then(|| self.shared.advance(head));
        answer(batch.outcomes);
        // Freeing what was replaced takes a while, and nobody has to wait for it.
        drop(replaced);
    }

    /// All stages for one transaction.
    pub(crate) fn commit_one(&mut self, deciding: &mut Deciding, txn: Txn) -> Result<Committed, Error> {
        deciding.propose(txn);
        let decided = self.close(deciding);
        let mut outcome = None;
        self.keep(decided, |mut outcomes| outcome = outcomes.pop());
        outcome.expect("one transaction has one outcome")
    }

    /// Forgets the past below `revision` and returns the replaced head. The open batch is empty, so
    /// everything that was decided is published.
    pub(crate) fn compact(
        &mut self,
        deciding: &mut Deciding,
        revision: Revision,
    ) -> Result<Arc<Head>, Error> {
        let head = self.shared.head_arc();
        if revision > head.revision {
            let current = head.revision;
            return Err(Error::Future {
                asked: revision,
                current,
            });
        }
        if revision <= head.compacted {
            return Ok(head);
        }
        self.shared.check_writable()?;
        let time = (self.shared.config.now)();
        let written = self.log.compact(revision, head.revision, time);
        self.note_failure(written)?;
        self.shared.counters.log_bytes.store(self.log.bytes(), Relaxed);
        deciding.draft.compact(revision);
        self.shared.publish(deciding.draft.head().clone());
        self.shared.forget_rewound(revision);
        self.shared.counters.compactions.fetch_add(1, Relaxed);
        Ok(head)
    }

    /// Takes the files that hold nothing above `revision` out of the log, oldest first.
    pub(crate) fn release(&mut self, revision: Revision) -> Vec<PathBuf> {
        self.log.release(revision)
    }

    /// Makes the batch durable, unless an earlier one could not be.
    fn write(&mut self, batch: &mut Batch, last: Revision) -> Result<(), Error> {
        self.shared.check_writable()?;
        if batch.accepted > 0 {
            let written = self.log.append(batch, last);
            self.note_failure(written)?;
            let counters = &self.shared.counters;
            counters.log_bytes.store(self.log.bytes(), Relaxed);
        }
        self.count(batch);
        Ok(())
    }

    fn count(&self, batch: &Batch) {
        let counters = &self.shared.counters;
        let refused = batch.outcomes.iter().filter(|outcome| outcome.is_err()).count();
        counters.commits.fetch_add(batch.accepted.into(), Relaxed);
        counters.conflicts.fetch_add(refused as u64, Relaxed);
        counters.batch_txns.record(batch.outcomes.len() as u64);
    }

    fn note_failure(&self, written: Result<(), Error>) -> Result<(), Error> {
        written.inspect_err(|error| {
            tracing::error!(%error, "a write has failed, the store is read-only from now on");
            self.shared.stop_writing(error);
        })
    }
}
