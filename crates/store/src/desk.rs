//! Where callers bring commits. Whoever brings one decides it at once, on its own thread; only if somebody
//! else is deciding at that moment, it is queued, and decided by the next one that comes or by the
//! sequencer's thread. So while a batch is being written, the next is decided by those who wait for it, and
//! nobody is woken for it.

use std::{
    hint,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

use tokio::sync::oneshot;

use crate::{
    Committed, Error, Txn,
    queue::{Command, Queue, Reply},
    stages::{Decided, Deciding, Keeping},
};

/// The open batch of a store, and the queue behind it.
///
/// Commits are taken out of the queue under the lock of `open`, so they are decided in the order they came.
/// That lock is the standard library's for the sake of its poison: who finds it poisoned knows that somebody
/// was in the middle of deciding, and that nothing can be built on it.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) queue: Queue,
    /// Gone once the sequencer's thread has ended.
    open: Mutex<Option<Open>>,
}

/// The open batch and who waits for it, in the same order.
#[derive(Debug)]
struct Open {
    deciding: Deciding,
    replies: Vec<Reply>,
}

/// What came of bringing a commit.
enum Brought {
    /// It is in the open batch.
    Decided(oneshot::Receiver<Result<Committed, Error>>),
    /// It has to be queued.
    Busy(Txn),
}

/// How often a caller looks whether the lock is free before it queues: about as long as a decision takes, which
/// is less than queueing costs.
const SPINS: usize = 24;

impl Desk {
    pub(crate) fn new(deciding: Deciding) -> Desk {
        let replies = Vec::new();
        Desk {
            queue: Queue::new(),
            open: Mutex::new(Some(Open { deciding, replies })),
        }
    }

    /// Brings a commit and returns where its answer will come.
    pub(crate) async fn bring(&self, txn: Txn) -> Result<oneshot::Receiver<Result<Committed, Error>>, Error> {
        match self.decide_now(txn)? {
            Brought::Decided(answer) => Ok(answer),
            Brought::Busy(txn) => self.queue.push(|reply| Command::Commit { txn, reply }).await,
        }
    }

    /// The next batch to keep, with everything in it that has come so far, and who waits for it. If another
    /// command comes first, and everything before it is kept, `obey` is called with that, and there is no batch.
    pub(crate) fn work(
        &self,
        keeping: &mut Keeping,
        obey: impl FnOnce(&mut Keeping, &mut Deciding, Command),
    ) -> Result<Option<(Decided, Vec<Reply>)>, Error> {
        let mut guard = self.open.lock().map_err(|_| Error::Closed)?;
        let open = guard.as_mut().ok_or(Error::Closed)?;
        self.refill(open);
        if !open.deciding.is_empty() {
            let next = Vec::with_capacity(open.replies.len());
            let replies = std::mem::replace(&mut open.replies, next);
            return Ok(Some((keeping.close(&mut open.deciding), replies)));
        }
        if let Some(command) = self.queue.take_if(|_| true) {
            obey(keeping, &mut open.deciding, command);
        }
        Ok(None)
    }

    /// Called when the sequencer's thread ends: drops everything that still waits.
    pub(crate) fn end(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(open);
        self.queue.end();
    }

    fn decide_now(&self, txn: Txn) -> Result<Brought, Error> {
        let Some(mut guard) = self.try_open()? else {
            return Ok(Brought::Busy(txn));
        };
        let open = guard.as_mut().ok_or(Error::Closed)?;
        let was_empty = open.deciding.is_empty();
        let brought = self.join(open, txn)?;
        let is_news = was_empty && !open.deciding.is_empty();
        drop(guard);
        if is_news {
            // Whatever was proposed, queued or brought, the thread has to know of it. A queue that has closed
            // meanwhile drops the answer.
            self.queue.announce().ok();
        }
        Ok(brought)
    }

    /// Decides what is queued, then `txn`, unless something is left that comes before it.
    fn join(&self, open: &mut Open, txn: Txn) -> Result<Brought, Error> {
        if !self.queue.is_clear()? {
            self.refill(open);
            if !self.queue.is_clear()? {
                return Ok(Brought::Busy(txn));
            }
        }
        if !open.deciding.has_room(&txn) {
            return Ok(Brought::Busy(txn));
        }
        let (reply, answer) = oneshot::channel();
        open.propose(txn, reply);
        Ok(Brought::Decided(answer))
    }

    /// The open batch, unless somebody else has it for long.
    fn try_open(&self) -> Result<Option<MutexGuard<'_, Option<Open>>>, Error> {
        for _ in 0..SPINS {
            match self.open.try_lock() {
                Ok(guard) => return Ok(Some(guard)),
                Err(TryLockError::WouldBlock) => hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => return Err(Error::Closed),
            }
        }
        Ok(None)
    }

    /// Decides the queued commits, up to the first other command or until the batch is full.
    fn refill(&self, open: &mut Open) {
        let fits = |open: &Open, command: &Command| match command {
            Command::Commit { txn, .. } => open.deciding.has_room(txn),
            _ => false,
        };
        while let Some(Command::Commit { txn, reply }) = self.queue.take_if(|command| fits(open, command)) {
            open.propose(txn, reply);
        }
    }
}

impl Open {
    fn propose(&mut self, txn: Txn, reply: Reply) {
        self.deciding.propose(txn);
        self.replies.push(reply);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{conformance::SetClock, head::Head, log::memory::MemoryLog, shared::Shared, stages::stages};

    /// The thread would sleep for ever on a commit that it never hears of.
    #[test]
    fn a_queued_commit_that_another_caller_decides_is_announced() {
        let shared = Shared::new(SetClock::default().config(), Arc::new(Head::default()));
        let (deciding, mut keeping) = stages(&shared, Box::new(MemoryLog));
        let desk = Desk::new(deciding);
        let (reply, _answer) = oneshot::channel();
        let queued = Command::Commit {
            txn: Txn::default(),
            reply,
        };
        desk.queue.put_first(queued);
        assert!(matches!(desk.decide_now(Txn::default()), Ok(Brought::Decided(_))));
        assert!(desk.queue.wait());
        let work = desk.work(&mut keeping, |_, _, _| {});
        assert!(matches!(work, Ok(Some((_, replies))) if replies.len() == 2));
    }
}
