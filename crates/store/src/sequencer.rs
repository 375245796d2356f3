//! The one writer: what callers have decided it makes durable, then publishes.
//!
//! The memory engine never waits, so its stages run on the caller's thread, one caller at a time, which
//! also keeps a simulation with a stepped clock in step. An engine that waits for a disk has one thread that
//! writes batch after batch. Callers decide what they bring (`desk.rs`), so a lone commit crosses to that
//! thread and back, and under load the thread goes from one write to the next without waiting for anybody.
//! Whatever arrives while a batch is being written becomes the next batch; there is no timer.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;

use crate::{
    Committed, Error, Revision, Txn,
    desk::Desk,
    head::Head,
    queue::{Command, Queue},
    stages::{Deciding, Keeping},
};

/// The way to the stages.
#[derive(Debug)]
pub(crate) enum Lane {
    /// Runs on the caller's thread; gone once closed.
    Inline(Box<Mutex<Option<(Deciding, Keeping)>>>),
    /// Runs on a thread of its own until closed or until the lane is dropped.
    Thread {
        desk: Arc<Desk>,
        /// Always there until the lane is dropped.
        thread: Option<JoinHandle<()>>,
    },
}

/// The thread. When it ends, by closing or by a panic, so does the store's writing.
#[derive(Debug)]
struct Sequencer {
    desk: Arc<Desk>,
    /// Always there until the sequencer is dropped.
    keeping: Option<Keeping>,
}

// === impl Lane ===

impl Lane {
    pub(crate) fn inline(deciding: Deciding, keeping: Keeping) -> Lane {
        Lane::Inline(Box::new(Mutex::new(Some((deciding, keeping)))))
    }

    pub(crate) fn thread(deciding: Deciding, keeping: Keeping) -> Result<Lane, Error> {
        let desk = Arc::new(Desk::new(deciding));
        let sequencer = Sequencer {
            desk: desk.clone(),
            keeping: Some(keeping),
        };
        let thread = thread::Builder::new()
            .name("store-sequencer".into())
            .spawn(move || sequencer.run())
            .map_err(Error::io("start", "store-sequencer"))?;
        Ok(Lane::Thread {
            desk,
            thread: Some(thread),
        })
    }

    pub(crate) async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        match self {
            Lane::Inline(stages) => with_open(stages, |deciding, keeping| keeping.commit_one(deciding, txn))?,
            Lane::Thread { desk, .. } => desk.bring(txn).await?.await.map_err(|_| Error::Closed)?,
        }
    }

    /// Commits each transaction on its own, in order, in as few durable writes as possible.
    pub(crate) async fn commit_all(&self, txns: Vec<Txn>) -> Result<Vec<Result<Committed, Error>>, Error> {
        let mut outcomes = Vec::with_capacity(txns.len());
        match self {
            Lane::Inline(_) => {
                for txn in txns {
                    outcomes.push(self.commit(txn).await);
                }
            }
            Lane::Thread { desk, .. } => {
                let mut answers = Vec::with_capacity(txns.len());
                for txn in txns {
                    answers.push(desk.bring(txn).await?);
                }
                for answer in answers {
                    outcomes.push(answer.await.map_err(|_| Error::Closed)?);
                }
            }
        }
        Ok(outcomes)
    }

    /// Forgets the past below `revision` and returns the replaced head, so that the caller, not the
    /// sequencer, pays for freeing it.
    pub(crate) async fn compact(&self, revision: Revision) -> Result<Arc<Head>, Error> {
        match self {
            Lane::Inline(stages) => {
                with_open(stages, |deciding, keeping| keeping.compact(deciding, revision))?
            }
            Lane::Thread { desk, .. } => {
                ask(&desk.queue, |reply| Command::Compact { revision, reply }).await?
            }
        }
    }

    /// Takes the files that hold nothing above `revision` out of the log, oldest first.
    pub(crate) async fn release(&self, revision: Revision) -> Result<Vec<PathBuf>, Error> {
        match self {
            Lane::Inline(stages) => with_open(stages, |_, keeping| keeping.release(revision)),
            Lane::Thread { desk, .. } => ask(&desk.queue, |reply| Command::Release { revision, reply }).await,
        }
    }

    /// Stops after everything that was asked before.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        match self {
            Lane::Inline(stages) => {
                let open = stages.lock().unwrap_or_else(PoisonError::into_inner).take();
                open.map(drop).ok_or(Error::Closed)
            }
            Lane::Thread { desk, .. } => desk.queue.close_and_tell()?.await.map_err(|_| Error::Closed),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Lane::Thread { desk, thread } = self {
            desk.queue.close();
            let ended = thread.take().map(JoinHandle::join);
            if let Some(Err(_)) = ended {
                tracing::error!("the store's sequencer has panicked");
            }
        }
    }
}

/// A lock that is poisoned was left in the middle of a commit, and nothing can be built on that.
fn with_open<T>(
    stages: &Mutex<Option<(Deciding, Keeping)>>,
    act: impl FnOnce(&mut Deciding, &mut Keeping) -> T,
) -> Result<T, Error> {
    let mut guard = stages.lock().map_err(|_| Error::Closed)?;
    let (deciding, keeping) = guard.as_mut().ok_or(Error::Closed)?;
    Ok(act(deciding, keeping))
}

async fn ask<T>(queue: &Queue, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Error> {
    queue.push(command).await?.await.map_err(|_| Error::Closed)
}

// === impl Sequencer ===

impl Sequencer {
    fn run(mut self) {
        let desk = self.desk.clone();
        let keeping = self
            .keeping
            .as_mut()
            .expect("the sequencer keeps until it is dropped");
        while desk.queue.wait() {
            match desk.work(keeping, obey) {
                Ok(Some((decided, replies))) => keeping.keep(decided, |outcomes| {
                    for (reply, outcome) in replies.into_iter().zip(outcomes) {
                        reply.send(outcome).ok();
                    }
                }),
                Ok(None) => {}
                // A caller has panicked in the middle of deciding.
                Err(_) => return,
            }
        }
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        self.desk.queue.close();
        // The log lets go of its directory before the closing caller hears of it.
        drop(self.keeping.take());
        self.desk.end();
    }
}

fn obey(keeping: &mut Keeping, deciding: &mut Deciding, command: Command) {
    match command {
        Command::Compact { revision, reply } => {
            reply.send(keeping.compact(deciding, revision)).ok();
        }
        Command::Release { revision, reply } => {
            reply.send(keeping.release(revision)).ok();
        }
        Command::Commit { .. } => unreachable!("a commit fits into an empty batch"),
    }
}
