//! The one writer: it decides transactions in order, makes them durable, then publishes.
//!
//! An engine that waits for a disk has its sequencer on a thread of its own, fed by a bounded queue.
//! Whatever arrives while one batch is being written becomes the next batch; there is no timer. The memory
//! engine never waits, so its sequencer sits behind a mutex and runs on the caller's thread, which also
//! keeps a simulation with a stepped clock in step.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::JoinHandle,
};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::{
    Committed, Error, Revision, Txn,
    batch::{Batch, Draft},
    head::Head,
    log::Log,
    shared::Shared,
};

/// What a caller gets for each of its transactions.
pub(crate) type Outcomes = Vec<Result<Committed, Error>>;

/// The way to the sequencer.
#[derive(Debug)]
pub(crate) enum Lane {
    /// Runs on the caller's thread; gone once closed.
    Inline(Mutex<Option<Sequencer>>),
    /// Runs on its own thread until closed or until the lane is dropped.
    Thread {
        queue: Option<mpsc::Sender<Command>>,
        thread: Option<JoinHandle<()>>,
    },
}

#[derive(Debug)]
pub(crate) enum Command {
    Commit {
        txns: Vec<Txn>,
        reply: oneshot::Sender<Outcomes>,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<Arc<Head>, Error>>,
    },
    Release {
        revision: Revision,
        reply: oneshot::Sender<Vec<PathBuf>>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

/// The right to change a store. There is one per store.
#[derive(Debug)]
pub(crate) struct Sequencer {
    shared: Arc<Shared>,
    log: Box<dyn Log>,
    /// The first failed write. After it nothing is written any more.
    failed: Option<Arc<Error>>,
}

/// Callers wait for a place when this many commands are queued.
const QUEUE_COMMANDS: usize = 1024;

/// A batch is closed once its transactions hold this many bytes; a larger transaction goes alone.
pub(crate) const BATCH_BYTES: u64 = 4 << 20;

// === impl Lane ===

impl Lane {
    pub(crate) fn inline(sequencer: Sequencer) -> Lane {
        Lane::Inline(Mutex::new(Some(sequencer)))
    }

    pub(crate) fn thread(sequencer: Sequencer) -> Result<Lane, Error> {
        let (queue, commands) = mpsc::channel(QUEUE_COMMANDS);
        let thread = std::thread::Builder::new()
            .name("store-sequencer".into())
            .spawn(move || run(sequencer, commands))
            .map_err(Error::io("start", "store-sequencer"))?;
        Ok(Lane::Thread {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Commits each transaction on its own, in order, in as few durable writes as possible.
    pub(crate) async fn commit(&self, txns: Vec<Txn>) -> Result<Outcomes, Error> {
        match self {
            Lane::Inline(sequencer) => with_open(sequencer, |open| open.commit(txns)),
            Lane::Thread { queue, .. } => ask(queue, |reply| Command::Commit { txns, reply }).await,
        }
    }

    /// Forgets the past below `revision` and returns the replaced head, so that the caller, not the
    /// sequencer, pays for freeing it.
    pub(crate) async fn compact(&self, revision: Revision) -> Result<Arc<Head>, Error> {
        match self {
            Lane::Inline(sequencer) => with_open(sequencer, |open| open.compact(revision))?,
            Lane::Thread { queue, .. } => ask(queue, |reply| Command::Compact { revision, reply }).await?,
        }
    }

    /// Takes the files that hold nothing above `revision` out of the log, oldest first.
    pub(crate) async fn release(&self, revision: Revision) -> Result<Vec<PathBuf>, Error> {
        match self {
            Lane::Inline(sequencer) => with_open(sequencer, |open| open.log.release(revision)),
            Lane::Thread { queue, .. } => ask(queue, |reply| Command::Release { revision, reply }).await,
        }
    }

    /// Stops the sequencer after everything that was asked before.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        match self {
            Lane::Inline(sequencer) => {
                let open = sequencer.lock().take();
                open.map(drop).ok_or(Error::Closed)
            }
            Lane::Thread { queue, .. } => ask(queue, |reply| Command::Close { reply }).await,
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Lane::Thread { queue, thread } = self {
            drop(queue.take());
            if let Some(Err(_)) = thread.take().map(JoinHandle::join) {
                tracing::error!("the store's sequencer has panicked");
            }
        }
    }
}

fn with_open<T>(
    sequencer: &Mutex<Option<Sequencer>>,
    act: impl FnOnce(&mut Sequencer) -> T,
) -> Result<T, Error> {
    sequencer.lock().as_mut().map(act).ok_or(Error::Closed)
}

async fn ask<T>(
    queue: &Option<mpsc::Sender<Command>>,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> Result<T, Error> {
    let queue = queue.as_ref().ok_or(Error::Closed)?;
    let (reply, answer) = oneshot::channel();
    queue.send(command(reply)).await.map_err(|_| Error::Closed)?;
    answer.await.map_err(|_| Error::Closed)
}

/// The sequencer's thread.
fn run(mut sequencer: Sequencer, mut commands: mpsc::Receiver<Command>) {
    let mut waiting = None;
    let closing = loop {
        let Some(command) = waiting.take().or_else(|| commands.blocking_recv()) else {
            break None;
        };
        match command {
            Command::Commit { txns, reply } => {
                waiting = sequencer.commit_queued(txns, reply, &mut commands);
            }
            Command::Compact { revision, reply } => {
                reply.send(sequencer.compact(revision)).ok();
            }
            Command::Release { revision, reply } => {
                reply.send(sequencer.log.release(revision)).ok();
            }
            Command::Close { reply } => break Some(reply),
        }
    };
    // The log lets go of its directory before the closing caller hears of it.
    drop(sequencer);
    if let Some(reply) = closing {
        reply.send(()).ok();
    }
}

// === impl Sequencer ===

/// However the sequencer ends, by closing or by a panic, the watchers hear of it.
impl Drop for Sequencer {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Sequencer {
    pub(crate) fn new(shared: Arc<Shared>, log: Box<dyn Log>) -> Sequencer {
        shared.counters.log_bytes.store(log.bytes(), Relaxed);
        Sequencer {
            shared,
            log,
            failed: None,
        }
    }

    /// Commits the first command's transactions together with everything that is queued behind them.
    /// Returns the command that has to wait for the next round, if one was met.
    fn commit_queued(
        &mut self,
        mut txns: Vec<Txn>,
        reply: oneshot::Sender<Outcomes>,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<Command> {
        let mut bytes: u64 = txns.iter().map(Txn::bytes).sum();
        let mut replies = vec![(txns.len(), reply)];
        let mut waiting = None;
        while let Ok(command) = commands.try_recv() {
            let more = match &command {
                Command::Commit { txns, .. } => txns.iter().map(Txn::bytes).sum(),
                _ => u64::MAX,
            };
            bytes = bytes.saturating_add(more);
            match command {
                Command::Commit { txns: next, reply } if bytes <= BATCH_BYTES => {
                    replies.push((next.len(), reply));
                    txns.extend(next);
                }
                other => {
                    waiting = Some(other);
                    break;
                }
            }
        }
        let mut outcomes = self.commit(txns).into_iter();
        for (count, reply) in replies {
            reply.send(outcomes.by_ref().take(count).collect()).ok();
        }
        waiting
    }

    /// Decides, writes, publishes; in this order, so nothing is seen before it is durable.
    fn commit(&mut self, txns: Vec<Txn>) -> Outcomes {
        let count = txns.len();
        match self.try_commit(txns) {
            Ok(outcomes) => outcomes,
            Err(error) => vec![Err(error); count],
        }
    }

    fn try_commit(&mut self, txns: Vec<Txn>) -> Result<Outcomes, Error> {
        self.check_writable()?;
        let mut batch = Batch::new(self.draft(), txns);
        let written = self.log.commit(&mut batch);
        self.note_failure(written)?;
        self.count(&batch);
        if !batch.accepted.is_empty() {
            self.publish(batch.draft);
        }
        Ok(batch.outcomes)
    }

    fn compact(&mut self, revision: Revision) -> Result<Arc<Head>, Error> {
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
        self.check_writable()?;
        let written = self.log.compact(revision, &self.draft());
        self.note_failure(written)?;
        let mut next = Head::clone(&head);
        next.compact(revision);
        self.shared.publish(next);
        self.shared.forget_rewound(revision);
        self.shared.counters.compactions.fetch_add(1, Relaxed);
        self.shared.counters.log_bytes.store(self.log.bytes(), Relaxed);
        Ok(head)
    }

    fn draft(&self) -> Draft {
        let time = (self.shared.config.now)();
        Draft::new(Head::clone(&self.shared.head()), time)
    }

    fn publish(&mut self, draft: Draft) {
        let head = draft.finish(&self.shared.config.history);
        let compacted = head.compacted;
        let replaced = self.shared.publish(head);
        if compacted > replaced.compacted {
            self.shared.forget_rewound(compacted);
        }
        self.shared.counters.log_bytes.store(self.log.bytes(), Relaxed);
    }

    fn count(&self, batch: &Batch) {
        let counters = &self.shared.counters;
        let refused = batch.outcomes.iter().filter(|outcome| outcome.is_err()).count();
        counters.commits.fetch_add(batch.accepted.len() as u64, Relaxed);
        counters.conflicts.fetch_add(refused as u64, Relaxed);
        counters.batch_txns.record(batch.proposals.len() as u64);
    }

    fn check_writable(&self) -> Result<(), Error> {
        match &self.failed {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    fn note_failure(&mut self, written: Result<(), Error>) -> Result<(), Error> {
        written.inspect_err(|error| {
            tracing::error!(%error, "a write has failed, the store is read-only from now on");
            self.failed = Some(Arc::new(error.clone()));
        })
    }
}
