//! Queue of the sequencer thread: commands to execute, and the notification that a batch is open.

use std::{collections::VecDeque, mem, path::PathBuf, sync::Arc};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::{
    Error, Revision, Txn,
    commit::{Outcome, compact, evaluate::Evaluator, persist::Persister},
    head::Head,
    log::SpaceReport,
};

/// Bounded queue of commands in the order of arrival. Callers wait for a permit when it is full; the sequencer thread
/// waits for work.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    permits: Semaphore,
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Debug)]
pub(crate) enum Command {
    Commit {
        txn: Txn,
        reply: Reply,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<Arc<Head>, Error>>,
    },
    Release {
        revision: Revision,
        reply: oneshot::Sender<Vec<PathBuf>>,
    },
    CheckSpace {
        reply: oneshot::Sender<Result<SpaceReport, Error>>,
    },
}

/// Sends a caller the outcome of its transaction.
pub(crate) type Reply = oneshot::Sender<Outcome>;

/// The sequencer thread sleeps only while `commands` is empty and `batch_open` is false.
#[derive(Debug, Default)]
struct QueueState {
    commands: VecDeque<Command>,
    /// The open batch holds transactions that the sequencer has not been notified of before.
    batch_open: bool,
    /// The sequencer sleeps; the next change of the state wakes it.
    asleep: bool,
    /// Nothing more is accepted.
    closed: bool,
    /// Notified when the sequencer has ended.
    closing: Option<oneshot::Sender<()>>,
}

/// Maximum number of queued commands.
const QUEUE_COMMANDS: usize = 1024;

impl CommandQueue {
    pub(super) fn new() -> CommandQueue {
        CommandQueue {
            permits: Semaphore::new(QUEUE_COMMANDS),
            state: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    /// Queues a command and returns the receiver of its reply. If the queue closes first, the reply is dropped.
    pub(super) async fn push<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<oneshot::Receiver<T>, Error> {
        let permit = self.permits.acquire().await.map_err(|_| Error::Closed)?;
        permit.forget();
        let (reply, receiver) = oneshot::channel();
        let command = command(reply);
        self.update(|state| state.commands.push_back(command))?;
        Ok(receiver)
    }

    /// Notifies the sequencer that the open batch, which was empty, holds a transaction.
    pub(super) fn notify_open(&self) -> Result<(), Error> {
        self.update(|state| state.batch_open = true)
    }

    /// Whether no command is queued. Fails once closed.
    pub(super) fn is_empty(&self) -> Result<bool, Error> {
        let state = self.state.lock();
        match state.closed {
            true => Err(Error::Closed),
            false => Ok(state.commands.is_empty()),
        }
    }

    /// Dequeues the first command if it satisfies `predicate`.
    pub(super) fn take_if(&self, predicate: impl FnOnce(&Command) -> bool) -> Option<Command> {
        let mut state = self.state.lock();
        let command = state.commands.pop_front_if(|command| predicate(command))?;
        drop(state);
        self.permits.add_permits(1);
        Some(command)
    }

    /// Whether the sequencer would wait for work.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().is_idle()
    }

    /// Waits for work; false once the queue is closed and everything is done. After true, the sequencer takes what
    /// is in the open batch.
    pub(super) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.is_idle() {
            if state.closed {
                return false;
            }
            state.asleep = true;
            self.arrived.wait(&mut state);
        }
        state.asleep = false;
        state.batch_open = false;
        true
    }

    /// Rejects all further commands. Those that were accepted are still executed.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.permits.close();
        self.arrived.notify_one();
    }

    /// Closes, and returns a receiver that is notified when the sequencer has ended. Fails if already closed.
    pub(super) fn close_and_wait(&self) -> Result<oneshot::Receiver<()>, Error> {
        let (closing, ended) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::Closed);
            }
            state.closing = Some(closing);
        }
        self.close();
        Ok(ended)
    }

    /// Called when the sequencer has ended: drops the remaining commands and notifies the closing caller.
    pub(super) fn end(&self) {
        let (remaining, closing) = {
            let mut state = self.state.lock();
            (mem::take(&mut state.commands), state.closing.take())
        };
        drop(remaining);
        if let Some(closing) = closing {
            closing.send(()).ok();
        }
    }

    /// Queues a command without notifying the sequencer, as if it had been notified and not run yet.
    #[cfg(test)]
    pub(super) fn put_first(&self, command: Command) {
        self.state.lock().commands.push_front(command);
    }

    /// Changes the state and wakes the sequencer if it sleeps. Fails once closed.
    fn update(&self, change: impl FnOnce(&mut QueueState)) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Error::Closed);
        }
        change(&mut state);
        let wake = mem::take(&mut state.asleep);
        drop(state);
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }
}

impl QueueState {
    fn is_idle(&self) -> bool {
        !self.batch_open && self.commands.is_empty()
    }
}

impl Command {
    /// Executes any command but a commit, while the open batch is empty.
    pub(super) fn execute(self, evaluator: &mut Evaluator, persister: &mut Persister) {
        match self {
            Command::Compact { revision, reply } => {
                reply.send(compact(evaluator, persister, revision)).ok();
            }
            Command::Release { revision, reply } => {
                reply.send(persister.release(revision)).ok();
            }
            Command::CheckSpace { reply } => {
                reply.send(persister.check_space()).ok();
            }
            Command::Commit { .. } => unreachable!("a commit fits into an empty batch"),
        }
    }
}
