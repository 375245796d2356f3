//! [`Proposer`]: the commit path of a replicated store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::{
    Compare, Config, Error, Millis, Op, Record, RemoteFailure, Revision, Txn, TxnResponse,
    commit::Outcome,
    head::Head,
    remote::{
        RemoteCompare, RemoteCondition, RemoteLog, RemoteOp, RemoteOutcome, RemoteTxn,
        replica::{PendingPut, Replica},
    },
    shared::Shared,
};

/// Sends transactions to the cluster and returns once the replica shows them.
#[derive(Debug)]
pub(crate) struct Proposer {
    shared: Arc<Shared>,
    replica: Arc<Replica>,
    remote: Arc<dyn RemoteLog>,
    closed: AtomicBool,
}

/// The puts of a transaction while it is under way, by the position of the operation. Dropping it ends the registration.
struct PendingPuts<'a> {
    replica: &'a Replica,
    puts: Vec<Option<Arc<PendingPut>>>,
}

impl Proposer {
    pub(crate) fn new(shared: Arc<Shared>, replica: Arc<Replica>, remote: Arc<dyn RemoteLog>) -> Proposer {
        Proposer {
            shared,
            replica,
            remote,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) async fn commit(&self, mut txn: Txn) -> Outcome {
        self.check_open()?;
        let proposal = self.encode(&mut txn)?;
        let fills = self.replica.fills();
        let pending = self.register(&txn, &proposal);
        let proposed = self.remote.propose(proposal.clone()).await;
        let outcome = match proposed {
            Ok(outcome) => self.complete(outcome, &txn, &pending).await,
            Err(
                unknown @ Error::Remote {
                    failure: RemoteFailure::Unknown,
                    ..
                },
            ) => self.resolve(&txn, &pending, (unknown, fills)).await,
            Err(error) => Err(error),
        };
        self.count(&txn, &outcome);
        outcome
    }

    /// Waits until the replica shows every write that was acknowledged before.
    pub(crate) async fn confirm(&self) -> Result<Revision, Error> {
        let revision = self.confirmed_revision().await?;
        self.replica.reached(revision).await?;
        Ok(revision)
    }

    pub(crate) async fn confirmed_revision(&self) -> Result<Revision, Error> {
        self.check_open()?;
        self.remote.confirmed_revision().await
    }

    /// Sends a transaction that is in the cluster's form.
    pub(super) async fn propose(&self, txn: RemoteTxn) -> Result<RemoteOutcome, Error> {
        self.check_open()?;
        self.remote.propose(txn).await
    }

    /// Drops the replica's history below `revision`. The cluster's own is compacted by its engine.
    pub(crate) fn compact(&self, revision: Revision) -> Result<Arc<Head>, Error> {
        self.check_open()?;
        self.replica.compact(revision)
    }

    pub(crate) fn check_health(&self) -> Result<(), Error> {
        self.remote.check_health()
    }

    pub(crate) async fn close(&self) -> Result<(), Error> {
        if self.closed.swap(true, SeqCst) {
            return Err(Error::Closed);
        }
        let closed = self.remote.close().await;
        self.replica.close();
        closed
    }

    fn check_open(&self) -> Result<(), Error> {
        match self.closed.load(SeqCst) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    fn encode(&self, txn: &mut Txn) -> Result<RemoteTxn, Error> {
        let now = (self.shared.config.now)();
        let compares = txn.compares.iter().map(|compare| self.encode_compare(compare));
        let ops = txn.ops.iter_mut().map(|op| self.encode_op(op, now));
        Ok(RemoteTxn {
            compares: compares.collect::<Result<_, _>>()?,
            ops: ops.collect::<Result<_, _>>()?,
        })
    }

    fn encode_compare(&self, compare: &Compare) -> Result<RemoteCompare, Error> {
        Ok(RemoteCompare {
            key: self.shared.config.codec.stored_key(compare.key())?,
            condition: match compare {
                Compare::Modified { revision, .. } => RemoteCondition::Modified(*revision),
                Compare::Absent { .. } => RemoteCondition::Absent,
                Compare::Present { .. } => RemoteCondition::Present,
                Compare::Unchanged { since, .. } => RemoteCondition::Unchanged(*since),
            },
        })
    }

    /// Encodes an operation. The put of a sealed value gets the sealed form.
    fn encode_op(&self, op: &mut Op, now: Millis) -> Result<RemoteOp, Error> {
        let Config {
            codec, transformer, ..
        } = &self.shared.config;
        Ok(match op {
            Op::Put(put) => {
                let mut stored = codec.encode(put)?;
                if let Some(transformer) = transformer.as_ref().filter(|transformer| transformer.is_active())
                {
                    put.sealed = transformer.seal(&put.key, &stored.key, &stored.value)?;
                    if let Some(sealed) = &put.sealed {
                        stored.value = sealed.bytes.clone();
                    }
                }
                let ttl = |expires: Millis| Duration::from_millis(expires.saturating_sub(now));
                RemoteOp::Put {
                    key: stored.key,
                    value: stored.value,
                    ttl: put.expires.map(ttl),
                }
            }
            Op::Delete { key } => RemoteOp::Delete {
                key: codec.stored_key(key)?,
            },
        })
    }

    fn register(&self, txn: &Txn, proposal: &RemoteTxn) -> PendingPuts<'_> {
        let ops = txn.ops.iter().zip(&proposal.ops);
        let register = |(op, remote): (&Op, &RemoteOp)| match (op, remote) {
            (Op::Put(put), RemoteOp::Put { key, value, .. }) => {
                Some(self.replica.add_pending(key.clone(), value.clone(), put.clone()))
            }
            _ => None,
        };
        PendingPuts {
            replica: &self.replica,
            puts: ops.map(register).collect(),
        }
    }

    /// Waits for the replica and returns what the transaction became.
    async fn complete(&self, outcome: RemoteOutcome, txn: &Txn, pending: &PendingPuts<'_>) -> Outcome {
        match outcome {
            RemoteOutcome::Committed { revision } => {
                self.replica.reached(revision).await?;
                Ok(self.response(revision, txn, pending))
            }
            RemoteOutcome::Rejected {
                index,
                current,
                revision,
            } => {
                // A caller that tries again reads what the compare saw.
                self.replica.reached(revision).await?;
                let current = match current {
                    Some(entry) => self.replica.record_of(entry)?,
                    None => None,
                };
                Err(Error::Precondition { index, current })
            }
        }
    }

    /// Finds out what became of a transaction without a response. What the replica shows is certain: the bytes of a put, or
    /// a compare that can never hold again, unless the replica was filled meanwhile and may have missed the put.
    /// Otherwise the error reports that it is not known.
    async fn resolve(&self, txn: &Txn, pending: &PendingPuts<'_>, (unknown, fills): (Error, u64)) -> Outcome {
        if self.confirm().await.is_err() {
            return Err(unknown);
        }
        if let Some(revision) = pending.revision() {
            return Ok(self.response(revision, txn, pending));
        }
        let head = self.shared.head_arc();
        let conflicts = |compare: &Compare| match compare {
            Compare::Modified { key, revision } => {
                head.index.find(key).map(|record| record.modified) != Some(*revision)
            }
            _ => false,
        };
        let is_complete = txn.has_puts() && self.replica.fills() == fills;
        match txn.compares.iter().position(conflicts) {
            Some(index) if is_complete => Err(Error::Precondition {
                index,
                current: head.index.find(txn.compares[index].key()).cloned(),
            }),
            _ => Err(unknown),
        }
    }

    fn response(&self, revision: Revision, txn: &Txn, pending: &PendingPuts<'_>) -> TxnResponse {
        let head = self.shared.head();
        let ops = txn.ops.iter().zip(&pending.puts);
        let record = |(op, pending): (&Op, &Option<Arc<PendingPut>>)| match op {
            Op::Delete { .. } => None,
            Op::Put(put) => {
                let own = pending.as_ref().and_then(|pending| pending.record());
                own.filter(|record| record.modified == revision)
                    .or_else(|| record_at(&head, &put.key, revision))
                    .or_else(|| Some(Arc::new(Record::first(put.clone(), revision))))
            }
        };
        TxnResponse {
            revision,
            records: ops.map(record).collect(),
        }
    }

    fn count(&self, txn: &Txn, outcome: &Outcome) {
        let counters = &self.shared.counters;
        counters.batch_txns.record(1);
        match outcome {
            Ok(_) if !txn.ops.is_empty() => counters.commits.fetch_add(1, Relaxed),
            Err(Error::Precondition { .. }) => counters.conflicts.fetch_add(1, Relaxed),
            _ => 0,
        };
    }
}

impl PendingPuts<'_> {
    /// The revision at which the replica has seen the puts; the puts of a transaction share one.
    fn revision(&self) -> Option<Revision> {
        let record = self.puts.iter().flatten().find_map(|put| put.record());
        record.map(|record| record.modified)
    }
}

impl Drop for PendingPuts<'_> {
    fn drop(&mut self) {
        for put in self.puts.iter().flatten() {
            self.replica.remove_pending(put);
        }
    }
}

/// The record that `revision` wrote under `key`, if the history still has it: another writer of the same bytes may have
/// taken the pending put.
fn record_at(head: &Head, key: &[u8], revision: Revision) -> Option<Arc<Record>> {
    let before = Revision::new(revision.get().checked_sub(1)?);
    let chunk = head.history.after(before).next()?;
    let mut events = chunk.after(before).iter();
    let event = events.find(|event| event.revision == revision && event.key() == key)?;
    event.new.clone()
}
