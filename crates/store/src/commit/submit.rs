//! Submit, the entry of the commit path (flat combining): a caller evaluates its transaction on its own thread if the
//! evaluator lock is free, else it enqueues the transaction for the next lock holder or the sequencer.

use std::{
    hint,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

use tokio::sync::oneshot;

use crate::{
    Error, Txn,
    commit::{
        Outcome,
        evaluate::{EvaluatedBatch, Evaluator},
        persist::Persister,
        queue::{Command, CommandQueue},
    },
};

/// The evaluator with its open batch, and the queue in front of it.
///
/// Commits are dequeued under the evaluator lock, so they are evaluated in the order of arrival.
#[derive(Debug)]
pub(crate) struct BatchBuilder {
    queue: CommandQueue,
    /// `None` once the sequencer thread has ended. The standard library's lock, for its poisoning: it is poisoned
    /// if a caller panicked while evaluating, and then the draft is unusable and the store closed.
    evaluator: Mutex<Option<Evaluator>>,
}

/// Result of trying to evaluate a transaction on the caller's thread.
enum Submission {
    /// It is in the open batch; its outcome will arrive here.
    Evaluated(oneshot::Receiver<Outcome>),
    /// It has to be queued.
    Busy(Txn),
}

/// How often a caller tries the lock before it queues: about as long as an evaluation takes, which is less than
/// queueing costs.
const SPINS: usize = 24;

impl BatchBuilder {
    pub(super) fn new(evaluator: Evaluator) -> BatchBuilder {
        BatchBuilder {
            queue: CommandQueue::new(),
            evaluator: Mutex::new(Some(evaluator)),
        }
    }

    pub(super) fn queue(&self) -> &CommandQueue {
        &self.queue
    }

    /// Evaluates or enqueues a transaction; returns the receiver of its outcome.
    pub(super) async fn submit(&self, txn: Txn) -> Result<oneshot::Receiver<Outcome>, Error> {
        match self.try_evaluate(txn)? {
            Submission::Evaluated(outcome) => Ok(outcome),
            Submission::Busy(txn) => self.queue.push(|reply| Command::Commit { txn, reply }).await,
        }
    }

    /// Closes the open batch, with every queued commit that fits, and opens the next one. If there is nothing to
    /// commit, executes the next queued command instead. Fails if a caller panicked while evaluating.
    pub(super) fn next_batch(&self, persister: &mut Persister) -> Result<Option<EvaluatedBatch>, Error> {
        let mut guard = self.evaluator.lock().map_err(|_| Error::Closed)?;
        let evaluator = guard.as_mut().ok_or(Error::Closed)?;
        self.drain_queue(evaluator);
        if !evaluator.is_empty() {
            return Ok(Some(evaluator.close(persister.take_spare())));
        }
        if let Some(command) = self.queue.take_if(|_| true) {
            command.execute(evaluator, persister);
        }
        Ok(None)
    }

    /// Discards the open batch after the one before it could not be written.
    pub(super) fn roll_back(&self, error: &Error) -> Result<(), Error> {
        let mut guard = self.evaluator.lock().map_err(|_| Error::Closed)?;
        guard.as_mut().ok_or(Error::Closed)?.roll_back(error);
        Ok(())
    }

    /// Called when the sequencer thread ends: drops everything that is still waiting, which fails its callers.
    pub(super) fn end(&self) {
        let evaluator = self
            .evaluator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        drop(evaluator);
        self.queue.end();
    }

    fn try_evaluate(&self, txn: Txn) -> Result<Submission, Error> {
        let Some(mut guard) = self.try_lock()? else {
            return Ok(Submission::Busy(txn));
        };
        let evaluator = guard.as_mut().ok_or(Error::Closed)?;
        let was_empty = evaluator.is_empty();
        let submission = self.join_batch(evaluator, txn)?;
        let opened = was_empty && !evaluator.is_empty();
        drop(guard);
        if opened {
            // Whichever transaction opened the batch, queued or submitted, the sequencer has to be notified. If the
            // queue was closed meanwhile, the sequencer drops the replies.
            self.queue.notify_open().ok();
        }
        Ok(submission)
    }

    /// Evaluates the queued commits, then `txn`, unless a command remains that precedes it.
    fn join_batch(&self, evaluator: &mut Evaluator, txn: Txn) -> Result<Submission, Error> {
        if !self.queue.is_empty()? {
            self.drain_queue(evaluator);
            if !self.queue.is_empty()? {
                return Ok(Submission::Busy(txn));
            }
        }
        if !evaluator.fits(&txn) {
            return Ok(Submission::Busy(txn));
        }
        let (reply, outcome) = oneshot::channel();
        evaluator.evaluate(txn, Some(reply));
        Ok(Submission::Evaluated(outcome))
    }

    /// The evaluator lock, unless another thread holds it for long.
    fn try_lock(&self) -> Result<Option<MutexGuard<'_, Option<Evaluator>>>, Error> {
        for _ in 0..SPINS {
            match self.evaluator.try_lock() {
                Ok(guard) => return Ok(Some(guard)),
                Err(TryLockError::WouldBlock) => hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => return Err(Error::Closed),
            }
        }
        Ok(None)
    }

    /// Evaluates the queued commits, up to the first other command or until the batch is full.
    fn drain_queue(&self, evaluator: &mut Evaluator) {
        let fits = |evaluator: &Evaluator, command: &Command| match command {
            Command::Commit { txn, .. } => evaluator.fits(txn),
            _ => false,
        };
        while let Some(Command::Commit { txn, reply }) =
            self.queue.take_if(|command| fits(evaluator, command))
        {
            evaluator.evaluate(txn, Some(reply));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        commit::stages, conformance::ManualClock, head::Head, log::memory::MemoryLog, shared::Shared,
    };

    /// Without the notification the sequencer thread would sleep for ever.
    #[test]
    fn a_queued_commit_that_another_caller_evaluates_is_announced() {
        let shared = Shared::new(ManualClock::default().config(), Arc::new(Head::default()));
        let (evaluator, mut persister) = stages(&shared, Box::new(MemoryLog));
        let builder = BatchBuilder::new(evaluator);
        let (reply, _outcome) = oneshot::channel();
        let queued = Command::Commit {
            txn: Txn::default(),
            reply,
        };
        builder.queue.put_first(queued);
        assert!(matches!(
            builder.try_evaluate(Txn::default()),
            Ok(Submission::Evaluated(_))
        ));
        assert!(builder.queue.wait());
        let batch = builder.next_batch(&mut persister);
        assert!(matches!(batch, Ok(Some(batch)) if batch.replies.len() == 2));
    }
}
