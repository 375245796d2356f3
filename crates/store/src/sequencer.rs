//! The one writer: it decides transactions in order, makes them durable, then publishes.
//!
//! The memory engine never waits, so its stages run on the caller's thread, one caller at a time, which
//! also keeps a simulation with a stepped clock in step. An engine that waits for a disk has two threads
//! that take turns: while one waits for its batch to be durable, the other takes what has arrived since and
//! decides it. Neither hands work to the other, so a lone commit crosses to one thread and back. Whatever
//! arrives while a batch is being written becomes the next batch; there is no timer.

use std::{
    path::PathBuf,
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{
    Committed, Error, Revision, Txn,
    head::Head,
    queue::{Command, Queue, Turn, Work},
    stages::Stages,
};

/// The way to the stages.
#[derive(Debug)]
pub(crate) enum Lane {
    /// Runs on the caller's thread; gone once closed.
    Inline(Box<Mutex<Option<Stages>>>),
    /// Runs on threads of its own until closed or until the lane is dropped.
    Threads {
        queue: Arc<Queue>,
        threads: Vec<JoinHandle<()>>,
    },
}

/// One of the threads. Whichever ends last, by closing or by a panic, ends the store's writing.
#[derive(Debug)]
struct Member {
    queue: Arc<Queue>,
    /// Always there until the member is dropped.
    stages: Option<Arc<Stages>>,
}

/// One decides while the other writes; a third would find nothing to do.
const THREADS: usize = 2;

// === impl Lane ===

impl Lane {
    pub(crate) fn inline(stages: Stages) -> Lane {
        Lane::Inline(Box::new(Mutex::new(Some(stages))))
    }

    pub(crate) fn threads(stages: Stages) -> Result<Lane, Error> {
        let queue = Arc::new(Queue::new());
        let stages = Arc::new(stages);
        let members: Vec<Member> = (0..THREADS)
            .map(|_| Member {
                queue: queue.clone(),
                stages: Some(stages.clone()),
            })
            .collect();
        drop(stages);
        let start = |member: Member| {
            thread::Builder::new()
                .name("store-sequencer".into())
                .spawn(move || member.run())
                .map_err(Error::io("start", "store-sequencer"))
        };
        let threads = members.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Lane::Threads { queue, threads })
    }

    pub(crate) async fn commit(&self, txn: Txn) -> Result<Committed, Error> {
        match self {
            Lane::Inline(stages) => with_open(stages, |open| open.commit_one(txn))??,
            Lane::Threads { queue, .. } => ask(queue, |reply| Command::Commit { txn, reply }).await?,
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
            Lane::Threads { queue, .. } => {
                let mut answers = Vec::with_capacity(txns.len());
                for txn in txns {
                    answers.push(queue.push(|reply| Command::Commit { txn, reply }).await?);
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
            Lane::Inline(stages) => with_open(stages, |open| open.compact(revision))?,
            Lane::Threads { queue, .. } => ask(queue, |reply| Command::Compact { revision, reply }).await?,
        }
    }

    /// Takes the files that hold nothing above `revision` out of the log, oldest first.
    pub(crate) async fn release(&self, revision: Revision) -> Result<Vec<PathBuf>, Error> {
        match self {
            Lane::Inline(stages) => with_open(stages, |open| open.release(revision))?,
            Lane::Threads { queue, .. } => ask(queue, |reply| Command::Release { revision, reply }).await,
        }
    }

    /// Stops after everything that was asked before.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        match self {
            Lane::Inline(stages) => {
                let open = stages.lock().take();
                open.map(drop).ok_or(Error::Closed)
            }
            Lane::Threads { queue, .. } => queue.close_and_tell()?.await.map_err(|_| Error::Closed),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Lane::Threads { queue, threads } = self {
            queue.close();
            for thread in threads.drain(..) {
                if thread.join().is_err() {
                    tracing::error!("the store's sequencer has panicked");
                }
            }
        }
    }
}

fn with_open<T>(stages: &Mutex<Option<Stages>>, act: impl FnOnce(&Stages) -> T) -> Result<T, Error> {
    stages.lock().as_ref().map(act).ok_or(Error::Closed)
}

async fn ask<T>(queue: &Queue, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, Error> {
    queue.push(command).await?.await.map_err(|_| Error::Closed)
}

// === impl Member ===

impl Member {
    fn run(self) {
        let stages = self
            .stages
            .as_ref()
            .expect("a member has its stages until it is dropped");
        while let Some(turn) = self.queue.turn() {
            let done = match turn.work() {
                Work::Commits => commit_queued(stages, turn),
                Work::Other(command) => obey(stages, command),
            };
            // The other thread has panicked in the middle of its work: nothing can be built on it.
            if done.is_err() {
                return;
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(stages) = self.stages.take().and_then(Arc::into_inner) {
            // The log lets go of its directory before the closing caller hears of it.
            drop(stages);
            self.queue.end();
        }
    }
}

/// One batch from the queue to the answers.
fn commit_queued(stages: &Stages, turn: Turn<'_>) -> Result<(), Error> {
    let mut bytes = 0;
    let mut replies = Vec::new();
    let decided = stages.decide(|proposals| {
        turn.take(&mut bytes, |txn, reply| {
            proposals.push(txn);
            replies.push(reply);
        });
    })?;
    drop(turn);
    let leftovers = decided.finish(|outcomes| {
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            reply.send(outcome).ok();
        }
    });
    // Freed here, while the other thread goes on.
    drop(leftovers);
    Ok(())
}

fn obey(stages: &Stages, command: Command) -> Result<(), Error> {
    match command {
        Command::Compact { revision, reply } => {
            reply.send(stages.compact(revision)).ok();
        }
        Command::Release { revision, reply } => {
            reply.send(stages.release(revision)?).ok();
        }
        Command::Commit { .. } => {}
    }
    Ok(())
}
