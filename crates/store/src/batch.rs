//! A batch in the making: transactions are decided against a draft of the next head.

use std::{mem, sync::Arc};

use crate::{
    Committed, Compare, Error, Event, HistoryLimits, Millis, Op, Record, Revision, Txn,
    head::Head,
    history::Chunk,
    log::file::{block::Block, frame},
};

/// The next head while it is being made. Nobody sees it until it is finished and published.
#[derive(Debug)]
pub(crate) struct Draft {
    head: Head,
    time: Millis,
    events: Vec<Event>,
}

/// Transactions that are decided together, and what becomes of them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// When it was begun.
    pub(crate) time: Millis,
    /// One per proposal, in the order they came.
    pub(crate) outcomes: Vec<Result<Committed, Error>>,
    /// How many of them took a revision.
    pub(crate) accepted: u32,
    /// The accepted ones as a frame without checksums, for an engine that keeps frames. They are laid out
    /// while they are decided, so that writing them has less to do.
    pub(crate) frame: Option<Block>,
    /// What the proposals hold.
    bytes: u64,
}

/// A batch is closed once its transactions hold this many bytes; a larger transaction goes alone.
pub(crate) const BATCH_BYTES: u64 = 4 << 20;

// === impl Draft ===

impl Draft {
    pub(crate) fn new(head: Head, time: Millis) -> Draft {
        Draft {
            head,
            time,
            events: Vec::new(),
        }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn revision(&self) -> Revision {
        self.head.revision
    }

    /// Goes on with changes of a later time.
    pub(crate) fn begin(&mut self, time: Millis) {
        self.time = time;
    }

    /// Does what `ops` say, at a revision above all earlier ones.
    pub(crate) fn apply(&mut self, revision: Revision, ops: Vec<Op>) -> Vec<Option<Arc<Record>>> {
        self.head.revision = revision;
        ops.into_iter().map(|op| self.apply_one(revision, op)).collect()
    }

    /// Completes the head. The history's cap on bytes is kept here, so it holds at every moment.
    pub(crate) fn close(&mut self, limits: &HistoryLimits) {
        let head = &mut self.head;
        if !self.events.is_empty() {
            let next = Vec::with_capacity(self.events.len());
            let chunk = Chunk::new(self.time, mem::replace(&mut self.events, next));
            head.history.push(chunk, head.index.map());
        }
        if let Some(cut) = head.history.over(limits.superseded_bytes) {
            head.compact(cut);
        }
    }

    /// The completed head.
    pub(crate) fn finish(mut self, limits: &HistoryLimits) -> Head {
        self.close(limits);
        self.head
    }

    /// Forgets the past below `revision`.
    pub(crate) fn compact(&mut self, revision: Revision) {
        self.head.compact(revision);
    }

    fn check(&self, compares: &[Compare]) -> Result<(), Error> {
        for (index, compare) in compares.iter().enumerate() {
            let current = self.head.index.find(compare.key());
            if !compare.holds(current) {
                let current = current.cloned();
                return Err(Error::Precondition { index, current });
            }
        }
        Ok(())
    }

    fn changes_anything(&self, ops: &[Op]) -> bool {
        ops.iter().any(|op| match op {
            Op::Put(_) => true,
            Op::Delete { key } => self.head.index.find(key).is_some(),
        })
    }

    fn apply_one(&mut self, revision: Revision, op: Op) -> Option<Arc<Record>> {
        let (old, new) = match op {
            Op::Put(put) => {
                let (new, old) = self.head.index.put(put, revision);
                (old, Some(new))
            }
            Op::Delete { key } => (self.head.index.remove(&key), None),
        };
        if old.is_some() || new.is_some() {
            let new = new.clone();
            self.events.push(Event { revision, old, new });
        }
        new
    }
}

// === impl Batch ===

impl Batch {
    /// An empty batch; `frame` is for an engine that keeps frames.
    pub(crate) fn new(time: Millis, mut frame: Option<Block>) -> Batch {
        if let Some(block) = &mut frame {
            frame::begin(block);
        }
        Batch {
            time,
            frame,
            ..Batch::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Whether there is room for another transaction. The very first has it however large it is.
    pub(crate) fn has_room(&self, txn: &Txn) -> bool {
        self.is_empty() || self.bytes + txn.bytes() <= BATCH_BYTES
    }

    /// Takes in a proposal that is refused without a look at it.
    pub(crate) fn refuse(&mut self, error: Error) {
        self.outcomes.push(Err(error));
    }

    /// Decides a proposal against the draft; if it changes anything, it takes the next revision.
    pub(crate) fn decide(&mut self, draft: &mut Draft, txn: Txn) {
        self.bytes += txn.bytes();
        let outcome = draft.check(&txn.compares).map(|()| {
            if !draft.changes_anything(&txn.ops) {
                return unchanged(draft, &txn);
            }
            let revision = draft.revision().next();
            self.accepted += 1;
            if let Some(block) = &mut self.frame {
                frame::put_commit(block, revision, &txn);
            }
            let records = draft.apply(revision, txn.ops);
            Committed { revision, records }
        });
        self.outcomes.push(outcome);
    }
}

fn unchanged(draft: &Draft, txn: &Txn) -> Committed {
    Committed {
        revision: draft.revision(),
        records: vec![None; txn.ops.len()],
    }
}
