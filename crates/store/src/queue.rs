//! The way to the sequencer's threads: a bounded queue, and the turn to take from it.

use std::{collections::VecDeque, mem, path::PathBuf, sync::Arc};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::{Committed, Error, Revision, Txn, head::Head};

/// Commands in the order they came. Callers wait for a place when it is full; a thread of the sequencer
/// waits for its turn, and the one that has it is the only one that takes.
#[derive(Debug)]
pub(crate) struct Queue {
    places: Semaphore,
    state: Mutex<State>,
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
}

pub(crate) type Reply = oneshot::Sender<Result<Committed, Error>>;

/// The right to take commands. Dropping it hands the right on.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Queue);

/// What a turn is for.
#[derive(Debug)]
pub(crate) enum Work {
    /// There are commits to take.
    Commits,
    /// A command that is no commit.
    Other(Command),
}

/// A thread sleeps on `arrived` only if `commands` is empty or `attended` is set.
#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Command>,
    /// Somebody has the turn, and looks at `commands` again before handing it on.
    attended: bool,
    /// Nothing more is accepted.
    closed: bool,
    /// Hears when everything has ended.
    closing: Option<oneshot::Sender<()>>,
}

/// Callers wait for a place when this many commands are queued.
const QUEUE_COMMANDS: usize = 1024;

/// A batch is closed once its transactions hold this many bytes; a larger transaction goes alone.
pub(crate) const BATCH_BYTES: u64 = 4 << 20;

// === impl Queue ===

impl Queue {
    pub(crate) fn new() -> Queue {
        Queue {
            places: Semaphore::new(QUEUE_COMMANDS),
            state: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    /// Queues a command and returns where its answer will come. A queue that closes first drops the answer.
    pub(crate) async fn push<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<oneshot::Receiver<T>, Error> {
        let place = self.places.acquire().await.map_err(|_| Error::Closed)?;
        place.forget();
        let (reply, answer) = oneshot::channel();
        self.enqueue(command(reply))?;
        Ok(answer)
    }

    /// Waits until there is something to take and nobody else takes; nothing once all is done and closed.
    pub(crate) fn turn(&self) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        while state.attended || state.commands.is_empty() {
            if state.closed && state.commands.is_empty() {
                return None;
            }
            self.arrived.wait(&mut state);
        }
        state.attended = true;
        Some(Turn(self))
    }

    /// Refuses all further commands. Those that were accepted are still served.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.places.close();
        self.arrived.notify_all();
    }

    /// Closes, and returns where the end of all work will be told, unless somebody closed it before.
    pub(crate) fn close_and_tell(&self) -> Result<oneshot::Receiver<()>, Error> {
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

    /// Called once nobody takes any more: drops what was left and tells who waits for the end.
    pub(crate) fn end(&self) {
        let (left, closing) = {
            let mut state = self.state.lock();
            (mem::take(&mut state.commands), state.closing.take())
        };
        drop(left);
        if let Some(closing) = closing {
            closing.send(()).ok();
        }
    }

    fn enqueue(&self, command: Command) -> Result<(), Error> {
        let wake = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(Error::Closed);
            }
            state.commands.push_back(command);
            !state.attended && state.commands.len() == 1
        };
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }
}

// === impl Turn ===

impl Turn<'_> {
    /// Looks at what comes first.
    pub(crate) fn work(&self) -> Work {
        let mut state = self.0.state.lock();
        let other = state.commands.pop_front_if(|command| !command.is_commit());
        drop(state);
        match other {
            None => Work::Commits,
            Some(command) => {
                self.0.places.add_permits(1);
                Work::Other(command)
            }
        }
    }

    /// Takes the commits that come next, up to the first other command or until `bytes` would exceed a
    /// batch. The very first is taken however large it is.
    pub(crate) fn take(&self, bytes: &mut u64, mut each: impl FnMut(Txn, Reply)) {
        let mut taken = 0;
        let mut state = self.0.state.lock();
        while let Some(Command::Commit { txn, .. }) = state.commands.front() {
            let sum = *bytes + txn.bytes();
            if *bytes > 0 && sum > BATCH_BYTES {
                break;
            }
            *bytes = sum;
            taken += 1;
            if let Some(Command::Commit { txn, reply }) = state.commands.pop_front() {
                each(txn, reply);
            }
        }
        drop(state);
        self.0.places.add_permits(taken);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.attended = false;
        let more = !state.commands.is_empty() || state.closed;
        drop(state);
        if more {
            self.0.arrived.notify_all();
        }
    }
}

// === impl Command ===

impl Command {
    fn is_commit(&self) -> bool {
        matches!(self, Command::Commit { .. })
    }
}
