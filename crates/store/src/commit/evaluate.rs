//! Evaluate, the first stage: checks the compares of a transaction against the draft of the next head, assigns its
//! revision, applies its operations to the draft, and encodes it for the log.

use std::{mem, sync::Arc};

use crate::{
    Error, Millis, Revision, Txn, TxnResponse,
    commit::{Outcome, queue::Reply},
    head::{Draft, Head},
    log::{BATCH_BYTES, WriteBatch},
    shared::Shared,
};

/// Evaluates transactions into the open batch.
///
/// `outcomes` and `replies` hold one entry per transaction of the open batch, in the order of arrival; `replies` stays
/// empty where the caller evaluates inline and takes the outcome itself.
#[derive(Debug)]
pub(crate) struct Evaluator {
    shared: Arc<Shared>,
    /// The state after the newest evaluated transaction, which may be ahead of the published one.
    draft: Draft,
    /// The accepted transactions. They are encoded while they are evaluated, so that the write has less to do.
    writes: WriteBatch,
    outcomes: Vec<Outcome>,
    replies: Vec<Reply>,
    /// Size of the transactions in the open batch.
    bytes: u64,
}

/// A closed batch, next to be persisted.
#[derive(Debug)]
pub(crate) struct EvaluatedBatch {
    pub(super) writes: WriteBatch,
    pub(super) outcomes: Vec<Outcome>,
    pub(super) replies: Vec<Reply>,
    /// Published once the batch is durable; `None` if no transaction was accepted.
    pub(super) head: Option<Head>,
}

impl Evaluator {
    pub(super) fn new(shared: Arc<Shared>, writes: WriteBatch) -> Evaluator {
        Evaluator {
            draft: Draft::new(Head::clone(&shared.head()), Millis::default()),
            shared,
            writes,
            outcomes: Vec::new(),
            replies: Vec::new(),
            bytes: 0,
        }
    }

    /// Whether the open batch holds no transaction.
    pub(super) fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Whether the open batch has space for `txn`. An empty batch accepts a transaction of any size.
    pub(super) fn fits(&self, txn: &Txn) -> bool {
        self.is_empty() || self.bytes + txn.bytes() <= BATCH_BYTES
    }

    /// Evaluates `txn` as the next transaction of the open batch.
    pub(super) fn evaluate(&mut self, txn: Txn, reply: Option<Reply>) {
        if self.is_empty() {
            let now = (self.shared.config.now)();
            self.draft.set_time(now);
            self.writes.begin(now);
        }
        // After a failed write the draft contains changes that never became durable, so nothing is evaluated on it.
        let checked = self
            .shared
            .check_writable()
            .and_then(|()| self.shared.space.check(&txn));
        let outcome = match checked {
            Ok(()) => self.apply(txn),
            Err(error) => Err(error),
        };
        self.outcomes.push(outcome);
        self.replies.extend(reply);
    }

    /// Closes the open batch and opens the next one, which is encoded into `buffer`.
    pub(super) fn close(&mut self, buffer: WriteBatch) -> EvaluatedBatch {
        self.draft.close(&self.shared.config.history);
        self.bytes = 0;
        // The next batch is likely as large as this one.
        let outcomes = Vec::with_capacity(self.outcomes.len());
        let replies = Vec::with_capacity(self.replies.len());
        EvaluatedBatch {
            head: (!self.writes.is_empty()).then(|| self.draft.head().clone()),
            writes: mem::replace(&mut self.writes, buffer),
            outcomes: mem::replace(&mut self.outcomes, outcomes),
            replies: mem::replace(&mut self.replies, replies),
        }
    }

    /// Fails the transactions of the open batch and continues from the published head: the batch before could not be
    /// written, so what was evaluated on top of it is void.
    pub(super) fn roll_back(&mut self, error: &Error) {
        self.draft = Draft::new(Head::clone(&self.shared.head()), Millis::default());
        self.bytes = 0;
        self.outcomes.clear();
        for reply in self.replies.drain(..) {
            reply.send(Err(error.clone())).ok();
        }
    }

    /// Compacts the history of the draft and returns the head to publish. The open batch is empty.
    pub(super) fn compact(&mut self, revision: Revision) -> Head {
        self.draft.compact(revision);
        self.draft.head().clone()
    }

    /// Assigns the next revision if the compares hold and the transaction changes anything.
    fn apply(&mut self, txn: Txn) -> Result<TxnResponse, Error> {
        self.bytes += txn.bytes();
        self.draft.check(&txn.compares)?;
        if !self.draft.is_changed_by(&txn.ops) {
            return Ok(TxnResponse {
                revision: self.draft.revision(),
                records: vec![None; txn.ops.len()],
            });
        }
        let revision = self.draft.revision().next();
        self.writes.push(revision, &txn);
        let records = self.draft.apply(revision, txn.ops);
        Ok(TxnResponse { revision, records })
    }
}
