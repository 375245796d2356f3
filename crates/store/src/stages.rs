//! What a commit goes through: it is decided, then kept, which is writing, publishing and answering.
//!
//! Each of the two stages has a lock, and a batch takes the second before it lets go of the first, so batches
//! cannot overtake each other. A batch is decided on top of one that may still be being written, but nothing
//! of it is written before that one is durable, and nothing is published or answered out of order. If a
//! write fails, every batch behind it is refused, because it was decided on top of something that never came
//! to be.
//!
//! The locks are those of the standard library for the sake of their poison: who finds one poisoned knows
//! that a batch before its own was left half-way, and stops.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

use crate::{
    Committed, Error, Revision, Txn,
    batch::{Batch, Draft},
    head::Head,
    log::Log,
    shared::Shared,
};

/// The right to change a store. There is one per store. The locks are taken in the order of the fields.
#[derive(Debug)]
pub(crate) struct Stages {
    shared: Arc<Shared>,
    /// The state after the newest decided batch, which may be ahead of the published one.
    deciding: Mutex<Head>,
    keeping: Mutex<Box<dyn Log>>,
}

/// A decided batch that is next to be written.
#[derive(Debug)]
pub(crate) struct Decided<'a> {
    stages: &'a Stages,
    log: MutexGuard<'a, Box<dyn Log>>,
    batch: Batch,
    /// What is published once the batch is durable.
    head: Head,
}

/// What a batch leaves behind. Freeing it takes a while, so nobody should have to wait for it.
pub(crate) type Leftovers = (Vec<Txn>, Option<Arc<Head>>);

// === impl Stages ===

/// However the stages end, by closing or by a panic, the watchers hear of it.
impl Drop for Stages {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Stages {
    pub(crate) fn new(shared: Arc<Shared>, log: Box<dyn Log>) -> Stages {
        shared.counters.log_bytes.store(log.bytes(), Relaxed);
        Stages {
            deciding: Mutex::new(Head::clone(&shared.head())),
            keeping: Mutex::new(log),
            shared,
        }
    }

    /// Decides the proposals that `refill` adds: those that are there now, and then, once every earlier
    /// batch is written, those that have come meanwhile. An error means that the stages are broken.
    pub(crate) fn decide(&self, mut refill: impl FnMut(&mut Vec<Txn>)) -> Result<Decided<'_>, Error> {
        let mut newest = self.deciding.lock().map_err(broken)?;
        let time = (self.shared.config.now)();
        let mut draft = Draft::new(newest.clone(), time);
        let mut batch = Batch::new(time);
        refill(&mut batch.proposals);
        self.decide_open(&mut batch, &mut draft);
        let log = self.keeping.lock().map_err(broken)?;
        refill(&mut batch.proposals);
        self.decide_open(&mut batch, &mut draft);
        let head = draft.finish(&self.shared.config.history);
        *newest = head.clone();
        Ok(Decided {
            stages: self,
            log,
            batch,
            head,
        })
    }

    /// All stages for one transaction.
    pub(crate) fn commit_one(&self, txn: Txn) -> Result<Result<Committed, Error>, Error> {
        let mut txn = Some(txn);
        let decided = self.decide(|proposals| proposals.extend(txn.take()))?;
        let mut outcome = None;
        decided.finish(|mut outcomes| outcome = outcomes.pop());
        Ok(outcome.expect("one transaction has one outcome"))
    }

    /// Forgets the past below `revision`, once everything before has been published, and returns the
    /// replaced head.
    pub(crate) fn compact(&self, revision: Revision) -> Result<Arc<Head>, Error> {
        let mut newest = self.deciding.lock().map_err(broken)?;
        let mut log = self.keeping.lock().map_err(broken)?;
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
        self.note_failure(log.compact(revision, head.revision, (self.shared.config.now)()))?;
        self.shared.counters.log_bytes.store(log.bytes(), Relaxed);
        newest.compact(revision);
        self.shared.publish(newest.clone());
        self.shared.forget_rewound(revision);
        self.shared.counters.compactions.fetch_add(1, Relaxed);
        Ok(head)
    }

    pub(crate) fn release(&self, revision: Revision) -> Result<Vec<PathBuf>, Error> {
        Ok(self.keeping.lock().map_err(broken)?.release(revision))
    }

    /// Decides what is not decided yet, unless nothing can be written any more anyway.
    fn decide_open(&self, batch: &mut Batch, draft: &mut Draft) {
        if self.shared.check_writable().is_ok() {
            batch.decide(draft);
        }
    }

    fn count(&self, batch: &Batch) {
        let counters = &self.shared.counters;
        let refused = batch.outcomes.iter().filter(|outcome| outcome.is_err()).count();
        counters.commits.fetch_add(batch.accepted.len() as u64, Relaxed);
        counters.conflicts.fetch_add(refused as u64, Relaxed);
        counters.batch_txns.record(batch.proposals.len() as u64);
    }

    fn note_failure(&self, written: Result<(), Error>) -> Result<(), Error> {
        written.inspect_err(|error| {
            tracing::error!(%error, "a write has failed, the store is read-only from now on");
            self.shared.stop_writing(error);
        })
    }
}

// === impl Decided ===

impl Decided<'_> {
    /// Writes, publishes, answers; in this order, so nothing is seen before it is durable. The next batch is
    /// not written before the callers of this one are answered: what they ask next then shares that write,
    /// and sharing saves more than the wait costs.
    pub(crate) fn finish(mut self, answer: impl FnOnce(Vec<Result<Committed, Error>>)) -> Leftovers {
        let written = self.write();
        let proposals = self.batch.proposals;
        if let Err(error) = written {
            answer(vec![Err(error); proposals.len()]);
            return (proposals, None);
        }
        let replaced = (!self.batch.accepted.is_empty()).then(|| self.stages.shared.advance(self.head));
        answer(self.batch.outcomes);
        (proposals, replaced)
    }

    /// Makes the batch durable, unless an earlier one could not be.
    fn write(&mut self) -> Result<(), Error> {
        self.stages.shared.check_writable()?;
        if !self.batch.accepted.is_empty() {
            self.stages.note_failure(self.log.append(&self.batch))?;
            let counters = &self.stages.shared.counters;
            counters.log_bytes.store(self.log.bytes(), Relaxed);
        }
        self.stages.count(&self.batch);
        Ok(())
    }
}

fn broken<T>(_: PoisonError<T>) -> Error {
    Error::Closed
}
