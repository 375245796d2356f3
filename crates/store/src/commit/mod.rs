//! Commit path: how a transaction becomes durable and visible.
//!
//! ```text
//!  Store::commit                                                       callers' threads
//!     |
//!     v
//!  submit     BatchBuilder::submit ---- evaluator lock taken, or batch full ----> CommandQueue
//!     |                                                                                |
//!     | lock free                                  drained by the next lock holder     |
//!     v                                                                                |
//!  evaluate   Evaluator::evaluate <----------------------------------------------------+
//!     |       compares, revision, stamp: into the draft of the next head;
//!     |       record encoded into the open batch
//!     |
//! ----|---------------------------------------------------------------- sequencer thread ----
//!     v
//!  close      BatchBuilder::next_batch: the open batch becomes an EvaluatedBatch, the next opens
//!     |
//!     v
//!  persist    Persister::persist: append and sync, one durable write per batch (group commit)
//!     |
//!     v
//!  publish    publish: new head (index, history), wakes the watchers
//!     |
//!     v
//!  reply      each caller of the batch gets its outcome
//! ```
//!
//! Submitting is flat combining: a caller evaluates its transaction on its own thread if the evaluator lock is
//! free, else it enqueues the transaction for the next lock holder or the sequencer. While one batch is written,
//! the next is evaluated by the callers that wait for it, without waking a thread. There is no timer: whatever
//! arrives during a write becomes the next batch (group commit).
//!
//! An engine that never waits (the memory engine) needs no sequencer: all stages run on the caller's thread, one
//! caller at a time, which also keeps a simulation with a stepped clock deterministic.
//!
//! Invariants:
//! - Transactions are evaluated in the order of arrival, each on the state after the one before.
//! - A batch may be evaluated on top of one that is still being written, but it is written only after that one is
//!   durable, and nothing is published or returned out of order.
//! - Nothing is visible or returned before it is durable; a failed compare waits for the batch it was evaluated in.
//! - After a failed write nothing is written any more, and every batch after it fails, because it was evaluated on
//!   a state that never became durable. If the disk was full, only the batch that was evaluated on top of the failed
//!   one fails with it; then evaluation continues from the published state.
//!
//! Where a cluster assigns the order, none of these stages run: see `remote/mod.rs`.
//!
//! Lock order: the evaluator lock, then the queue's. Neither is held while a batch is persisted or published; only a
//! compaction writes under the evaluator lock.

mod evaluate;
mod persist;
mod publish;
mod queue;
mod sequencer;
mod submit;

pub(crate) use publish::{ChangeNotifier, ChangeReceiver, publish};

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use crate::{
    Error, Revision, Txn, TxnResponse,
    commit::{
        evaluate::{EvaluatedBatch, Evaluator},
        persist::Persister,
        queue::{Command, CommandQueue},
        submit::BatchBuilder,
    },
    head::Head,
    log::{Log, SpaceReport},
    remote::propose::Proposer,
    shared::Shared,
};

/// Outcome of one transaction.
pub(crate) type Outcome = Result<TxnResponse, Error>;

/// The only way to write to a store.
#[derive(Debug)]
pub(crate) enum CommitPath {
    /// All stages run on the caller's thread. `None` once closed.
    Inline(Box<Mutex<Option<(Evaluator, Persister)>>>),
    /// Callers evaluate, the sequencer thread persists and publishes, until closed or dropped.
    Sequenced {
        builder: Arc<BatchBuilder>,
        /// `None` only while the path is dropped.
        thread: Option<JoinHandle<()>>,
    },
    /// A cluster evaluates and persists; what it reports is published.
    Replicated(Proposer),
}

impl CommitPath {
    /// For an engine whose calls return at once.
    pub(crate) fn inline(shared: &Arc<Shared>, log: Box<dyn Log>) -> CommitPath {
        CommitPath::Inline(Box::new(Mutex::new(Some(stages(shared, log)))))
    }

    /// For an engine whose calls wait for a disk. Starts the sequencer thread.
    pub(crate) fn sequenced(shared: &Arc<Shared>, log: Box<dyn Log>) -> Result<CommitPath, Error> {
        let (evaluator, persister) = stages(shared, log);
        let builder = Arc::new(BatchBuilder::new(evaluator));
        let thread = sequencer::start(builder.clone(), persister)?;
        Ok(CommitPath::Sequenced {
            builder,
            thread: Some(thread),
        })
    }

    /// Returns once the transaction is durable and visible, or has failed.
    pub(crate) async fn commit(&self, txn: Txn) -> Outcome {
        match self {
            CommitPath::Inline(stages) => with_stages(stages, |evaluator, persister| {
                commit_inline(evaluator, persister, txn)
            })?,
            CommitPath::Sequenced { builder, .. } => received(builder.submit(txn).await?).await?,
            CommitPath::Replicated(proposer) => Box::pin(proposer.commit(txn)).await,
        }
    }

    /// Commits each transaction on its own, in order, in as few durable writes as possible.
    pub(crate) async fn commit_all(&self, txns: Vec<Txn>) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::with_capacity(txns.len());
        match self {
            CommitPath::Inline(_) | CommitPath::Replicated(_) => {
                for txn in txns {
                    outcomes.push(self.commit(txn).await);
                }
            }
            CommitPath::Sequenced { builder, .. } => {
                let mut receivers = Vec::with_capacity(txns.len());
                for txn in txns {
                    receivers.push(builder.submit(txn).await?);
                }
                for receiver in receivers {
                    outcomes.push(received(receiver).await?);
                }
            }
        }
        Ok(outcomes)
    }

    /// Compacts the history below `revision` and returns the replaced head, so that the caller, not the sequencer,
    /// pays for freeing it.
    pub(crate) async fn compact(&self, revision: Revision) -> Result<Arc<Head>, Error> {
        match self {
            CommitPath::Inline(stages) => with_stages(stages, |evaluator, persister| {
                compact(evaluator, persister, revision)
            })?,
            CommitPath::Sequenced { builder, .. } => {
                call(builder.queue(), |reply| Command::Compact { revision, reply }).await?
            }
            CommitPath::Replicated(proposer) => proposer.compact(revision),
        }
    }

    /// Takes the files that hold nothing above `revision` out of the log, oldest first.
    pub(crate) async fn release(&self, revision: Revision) -> Result<Vec<PathBuf>, Error> {
        match self {
            CommitPath::Inline(stages) => with_stages(stages, |_, persister| persister.release(revision)),
            CommitPath::Sequenced { builder, .. } => {
                call(builder.queue(), |reply| Command::Release { revision, reply }).await
            }
            CommitPath::Replicated(_) => Ok(Vec::new()),
        }
    }

    /// Looks for free space on the log's disk.
    pub(crate) async fn check_space(&self) -> Result<SpaceReport, Error> {
        match self {
            CommitPath::Inline(stages) => with_stages(stages, |_, persister| persister.check_space())?,
            CommitPath::Sequenced { builder, .. } => {
                call(builder.queue(), |reply| Command::CheckSpace { reply }).await?
            }
            CommitPath::Replicated(_) => Ok(SpaceReport::default()),
        }
    }

    /// Whether commits go to no log: the store is in memory only.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self, CommitPath::Inline(_))
    }

    /// Rejects further commits and returns after every accepted one has completed.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        match self {
            CommitPath::Inline(stages) => {
                let open = stages.lock().unwrap_or_else(PoisonError::into_inner).take();
                open.map(drop).ok_or(Error::Closed)
            }
            CommitPath::Sequenced { builder, .. } => received(builder.queue().close_and_wait()?).await,
            CommitPath::Replicated(proposer) => proposer.close().await,
        }
    }
}

impl Drop for CommitPath {
    fn drop(&mut self) {
        if let CommitPath::Sequenced { builder, thread } = self {
            builder.queue().close();
            let ended = thread.take().map(JoinHandle::join);
            if let Some(Err(_)) = ended {
                tracing::error!("the store's sequencer thread panicked");
            }
        }
    }
}

/// The stages of a new store. There is one of each per store: only the evaluator assigns revisions, only the
/// persister writes to the log.
fn stages(shared: &Arc<Shared>, log: Box<dyn Log>) -> (Evaluator, Persister) {
    shared.counters.log_bytes.store(log.bytes(), Relaxed);
    let evaluator = Evaluator::new(shared.clone(), log.new_batch());
    (evaluator, Persister::new(shared.clone(), log))
}

fn commit_inline(evaluator: &mut Evaluator, persister: &mut Persister, txn: Txn) -> Outcome {
    evaluator.evaluate(txn, None);
    let batch = evaluator.close(persister.take_spare());
    let (mut outcomes, _replaced) = complete(persister, batch, |error| evaluator.roll_back(error));
    outcomes.pop().expect("one transaction has one outcome")
}

/// Persists, then publishes. Returns the outcomes of the batch, and the replaced head for the caller to drop after it
/// has replied: freeing a head takes a while, and no caller has to wait for it. If there is no space for the batch, it
/// rolls the evaluator back; after any other failure nothing is evaluated any more.
fn complete(
    persister: &mut Persister,
    mut batch: EvaluatedBatch,
    roll_back: impl FnOnce(&Error),
) -> (Vec<Outcome>, Option<Arc<Head>>) {
    if let Err(error) = persister.persist(&mut batch) {
        if error.is_no_space() {
            roll_back(&error);
        }
        return (vec![Err(error); batch.outcomes.len()], None);
    }
    let replaced = batch.head.map(|head| publish(persister.shared(), head));
    (batch.outcomes, replaced)
}

/// Compacts the history below `revision` and returns the replaced head. The open batch is empty, so the published
/// head is the newest.
fn compact(
    evaluator: &mut Evaluator,
    persister: &mut Persister,
    revision: Revision,
) -> Result<Arc<Head>, Error> {
    let head = persister.shared().head_arc();
    if revision > head.revision {
        return Err(Error::Future {
            requested: revision,
            current: head.revision,
        });
    }
    if revision <= head.compacted {
        return Ok(head);
    }
    persister.persist_compaction(revision, head.revision)?;
    publish(persister.shared(), evaluator.compact(revision));
    persister.shared().counters.compactions.fetch_add(1, Relaxed);
    Ok(head)
}

/// A poisoned lock means that a caller panicked in the middle of a commit; the store is then closed.
fn with_stages<T>(
    stages: &Mutex<Option<(Evaluator, Persister)>>,
    act: impl FnOnce(&mut Evaluator, &mut Persister) -> T,
) -> Result<T, Error> {
    let mut guard = stages.lock().map_err(|_| Error::Closed)?;
    let (evaluator, persister) = guard.as_mut().ok_or(Error::Closed)?;
    Ok(act(evaluator, persister))
}

/// Queues a command and waits for its reply.
async fn call<T>(
    queue: &CommandQueue,
    command: impl FnOnce(oneshot::Sender<T>) -> Command,
) -> Result<T, Error> {
    received(queue.push(command).await?).await
}

/// Waits for a reply; a sender that was dropped means that the store closed first.
async fn received<T>(receiver: oneshot::Receiver<T>) -> Result<T, Error> {
    receiver.await.map_err(|_| Error::Closed)
}
