//! What waits for the sequencer's thread: commands it has to take, and the news that a batch is open.

use std::{collections::VecDeque, mem, path::PathBuf, sync::Arc};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::{Committed, Error, Revision, Txn, head::Head};

/// Commands in the order they came. Callers wait for a place when it is full; the sequencer's thread waits
/// for something to do.
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

/// The sequencer's thread sleeps only while `commands` is empty and no batch is `open`.
#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Command>,
    /// Something was proposed that the thread has not taken yet.
    open: bool,
    /// The thread sleeps, and whoever brings it something to do wakes it.
    asleep: bool,
    /// Nothing more is accepted.
    closed: bool,
    /// Hears when everything has ended.
    closing: Option<oneshot::Sender<()>>,
}

/// Callers wait for a place when this many commands are queued.
const QUEUE_COMMANDS: usize = 1024;

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
        let command = command(reply);
        self.tell(|state| state.commands.push_back(command))?;
        Ok(answer)
    }

    /// Says that something is put into the open batch, which was empty.
    pub(crate) fn announce(&self) -> Result<(), Error> {
        self.tell(|state| state.open = true)
    }

    /// Whether nothing is queued. Refuses once closed.
    pub(crate) fn is_clear(&self) -> Result<bool, Error> {
        let state = self.state.lock();
        match state.closed {
            true => Err(Error::Closed),
            false => Ok(state.commands.is_empty()),
        }
    }

    /// Takes the first command if `wanted` says so.
    pub(crate) fn take_if(&self, wanted: impl FnOnce(&Command) -> bool) -> Option<Command> {
        let mut state = self.state.lock();
        let command = state.commands.pop_front_if(|command| wanted(command))?;
        drop(state);
        self.places.add_permits(1);
        Some(command)
    }

    /// Waits until there is something to do; false once everything is done and closed. Whoever is told that
    /// there is takes what is in the open batch.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.open && state.commands.is_empty() {
            if state.closed {
                return false;
            }
            state.asleep = true;
            self.arrived.wait(&mut state);
        }
        state.asleep = false;
        state.open = false;
        true
    }

    /// Refuses all further commands. Those that were accepted are still served.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.places.close();
        self.arrived.notify_one();
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

    /// Puts a command there as if the thread had been told of it and not come to it yet.
    #[cfg(test)]
    pub(crate) fn put_first(&self, command: Command) {
        self.state.lock().commands.push_front(command);
    }

    /// Changes the state and wakes the thread if it sleeps, unless the queue is closed.
    fn tell(&self, change: impl FnOnce(&mut State)) -> Result<(), Error> {
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
