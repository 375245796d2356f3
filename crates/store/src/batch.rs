//! A batch in the making: transactions are decided against a draft of the next head.

use std::sync::Arc;

use crate::{
    Committed, Compare, Error, Event, HistoryLimits, Millis, Op, Record, Revision, Txn, head::Head,
    history::Chunk,
};

/// The next head while it is being made. Nobody sees it until it is finished and published.
#[derive(Debug)]
pub(crate) struct Draft {
    head: Head,
    time: Millis,
    events: Vec<Event>,
}

/// Proposed transactions and what becomes of them; all are decided, in order.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) time: Millis,
    pub(crate) proposals: Vec<Txn>,
    /// One per proposal, in the same order, once decided.
    pub(crate) outcomes: Vec<Result<Committed, Error>>,
    /// Which proposals took a revision, by position; the revisions rise.
    pub(crate) accepted: Vec<(Revision, usize)>,
}

// === impl Draft ===

impl Draft {
    pub(crate) fn new(head: Head, time: Millis) -> Draft {
        Draft {
            head,
            time,
            events: Vec::new(),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.head.revision
    }

    /// Does what `ops` say, at a revision above all earlier ones.
    pub(crate) fn apply(&mut self, revision: Revision, ops: &[Op]) -> Vec<Option<Arc<Record>>> {
        self.head.revision = revision;
        ops.iter().map(|op| self.apply_one(revision, op)).collect()
    }

    /// The finished head. The history's cap on bytes is kept here, so it holds at every moment.
    pub(crate) fn finish(self, limits: &HistoryLimits) -> Head {
        let mut head = self.head;
        if !self.events.is_empty() {
            let chunk = Chunk::new(self.time, self.events);
            head.history.push(chunk, head.index.map());
        }
        if let Some(cut) = head.history.over(limits.superseded_bytes) {
            head.compact(cut);
        }
        head
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

    fn apply_one(&mut self, revision: Revision, op: &Op) -> Option<Arc<Record>> {
        let index = &mut self.head.index;
        let (old, new) = match op {
            Op::Put(put) => {
                let make = |old: Option<&Arc<Record>>| {
                    Arc::new(Record::from_put(put, revision, old.map(Arc::as_ref)))
                };
                let (new, old) = index.put(&put.key, make);
                (old, Some(new))
            }
            Op::Delete { key } => (index.remove(key), None),
        };
        let changed = new.as_ref().or(old.as_ref())?;
        self.events.push(Event {
            revision,
            key: changed.key.clone(),
            old,
            new: new.clone(),
        });
        new
    }
}

// === impl Batch ===

impl Batch {
    pub(crate) fn new(time: Millis) -> Batch {
        Batch {
            time,
            proposals: Vec::new(),
            outcomes: Vec::new(),
            accepted: Vec::new(),
        }
    }

    /// Decides every proposal that has no outcome yet against the draft, giving out the next revisions.
    pub(crate) fn decide(&mut self, draft: &mut Draft) {
        let fresh = &self.proposals[self.outcomes.len()..];
        self.outcomes.reserve(fresh.len());
        draft.events.reserve(fresh.len());
        for txn in fresh {
            let outcome = draft.check(&txn.compares).map(|()| {
                if !draft.changes_anything(&txn.ops) {
                    return unchanged(draft, txn);
                }
                let revision = draft.revision().next();
                self.accepted.push((revision, self.outcomes.len()));
                let records = draft.apply(revision, &txn.ops);
                Committed { revision, records }
            });
            self.outcomes.push(outcome);
        }
    }

    /// The newest revision it takes, if it takes any.
    pub(crate) fn last(&self) -> Option<Revision> {
        self.accepted.last().map(|(revision, _)| *revision)
    }
}

fn unchanged(draft: &Draft, txn: &Txn) -> Committed {
    Committed {
        revision: draft.revision(),
        records: vec![None; txn.ops.len()],
    }
}
