//! [`WriteTxn`]: the transactions of one write. That of the object has all side writes on the same backend. A side write on
//! another backend has a transaction of its own, since none spans two stores: kube-apiserver, which has no transaction
//! over several objects at all, writes them in the same order.
//!
//! ```text
//! other backends: compares, creates, updates  ->  backend of the object  ->  other backends: deletes
//!                                                  if it fails: revert what was written
//! ```
//!
//! A server that is killed in between leaves a side write without its object: a quota that counts too much until the quota
//! controller calculates it again, or a cluster IP that is not used.

use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::Stored;
use setpoint_store::{Compare, Error, Op, Put, RemoteFailure, Txn, TxnResponse};

use crate::backend::Backend;
use crate::stored_object;

/// What a write commits.
#[derive(Debug)]
pub(crate) struct WriteTxn<'a> {
    backend: &'a Backend,
    /// Of the object, and of side writes on the same backend.
    pub(crate) own: Txn,
    others: Vec<OtherTxn>,
}

/// The side writes on another backend.
#[derive(Debug)]
pub(crate) struct OtherTxn {
    backend: Arc<Backend>,
    /// What is committed before the transaction of the object. Its operations are puts.
    before: Txn,
    /// For each operation of `before` the object that it replaces, if there is one.
    replaced: Vec<Option<Arc<Stored>>>,
    /// What is committed after it.
    after: Txn,
}

impl<'a> WriteTxn<'a> {
    /// A write of an object on this backend. The first compare is that of the object.
    pub(crate) fn new(backend: &'a Backend, compare: Compare, op: Op) -> Self {
        Self {
            backend,
            own: Txn {
                compares: vec![compare],
                ops: vec![op],
            },
            others: Vec::new(),
        }
    }

    /// Adds a condition on an object of a backend.
    pub(crate) fn add_compare(&mut self, backend: &Arc<Backend>, compare: Compare) {
        match self.other(backend) {
            Some(other) => other.before.compares.push(compare),
            None => self.own.compares.push(compare),
        }
    }

    /// Adds the put of an object, which replaces this one.
    pub(crate) fn add_put(&mut self, backend: &Arc<Backend>, put: Put, replaced: Option<Arc<Stored>>) {
        match self.other(backend) {
            Some(other) => {
                other.before.ops.push(Op::Put(put));
                other.replaced.push(replaced);
            }
            None => self.own.ops.push(Op::Put(put)),
        }
    }

    /// Adds the removal of an object.
    pub(crate) fn add_delete(&mut self, backend: &Arc<Backend>, key: Bytes) {
        match self.other(backend) {
            Some(other) => other.after.ops.push(Op::Delete { key }),
            None => self.own.ops.push(Op::Delete { key }),
        }
    }

    /// Commits all transactions. A failed compare of the object has index 0, as in a single transaction; that of a side
    /// write has a higher one.
    pub(crate) async fn commit(self) -> Result<TxnResponse, Error> {
        if self.others.is_empty() {
            return self.backend.store.commit(self.own).await;
        }
        let mut reverts = Vec::new();
        for other in &self.others {
            match other.prepare().await {
                Ok(undo) => reverts.push((other, undo)),
                Err(error) => {
                    revert(reverts).await;
                    return Err(error);
                }
            }
        }
        let committed = self.backend.store.commit(self.own).await;
        match &committed {
            Ok(_) => {
                for other in self.others {
                    other.complete().await;
                }
            }
            // It may have been executed, and then needs its side writes.
            Err(Error::Remote {
                failure: RemoteFailure::Unknown,
                ..
            }) => {}
            Err(_) => revert(reverts).await,
        }
        committed
    }

    /// The side writes on this backend, unless it is that of the object.
    fn other(&mut self, backend: &Arc<Backend>) -> Option<&mut OtherTxn> {
        if self.backend.is(backend) {
            return None;
        }
        let found = self.others.iter().position(|other| other.backend.is(backend));
        let index = found.unwrap_or_else(|| {
            self.others.push(OtherTxn::new(backend.clone()));
            self.others.len() - 1
        });
        Some(&mut self.others[index])
    }
}

impl OtherTxn {
    fn new(backend: Arc<Backend>) -> Self {
        Self {
            backend,
            before: Txn::default(),
            replaced: Vec::new(),
            after: Txn::default(),
        }
    }

    /// Commits what comes before the object. Returns the transactions that revert it, one for each object.
    async fn prepare(&self) -> Result<Vec<Txn>, Error> {
        if self.before.compares.is_empty() && self.before.ops.is_empty() {
            return Ok(Vec::new());
        }
        match self.backend.store.commit(self.before.clone()).await {
            Ok(committed) => {
                let ops = self.before.ops.iter().zip(&self.replaced);
                let undo = ops.map(|(op, replaced)| undo(op, replaced.as_deref(), &committed));
                Ok(undo.collect())
            }
            Err(Error::Precondition { index, current }) => {
                // The caller plans again from the caches, which do not have what the compare saw.
                self.backend.caught_up().await;
                Err(Error::Precondition {
                    index: index + 1,
                    current,
                })
            }
            Err(error) => Err(error),
        }
    }

    async fn complete(self) {
        if self.after.ops.is_empty() {
            return;
        }
        if let Err(error) = self.backend.store.commit(self.after).await {
            tracing::warn!(%error, "cannot delete an object on another store together with its owner");
        }
    }
}

/// Reverts what was committed for a write that failed. What has changed since belongs to another writer.
async fn revert(reverts: Vec<(&OtherTxn, Vec<Txn>)>) {
    for (other, undo) in reverts {
        for txn in undo {
            match other.backend.store.commit(txn).await {
                Ok(_) | Err(Error::Precondition { .. }) => {}
                Err(error) => tracing::warn!(%error, "cannot revert a side write on another store"),
            }
        }
    }
}

fn undo(op: &Op, replaced: Option<&Stored>, committed: &TxnResponse) -> Txn {
    let key = match op {
        Op::Put(put) => put.key.clone(),
        Op::Delete { key } => key.clone(),
    };
    let compare = Compare::Modified {
        key: key.clone(),
        revision: committed.revision,
    };
    let op = match replaced {
        Some(old) => {
            let (value, stamp) = stored_object::unstamped(old.json());
            Op::Put(Put {
                key,
                value: Bytes::from(value),
                stamp,
                ..Put::default()
            })
        }
        None => Op::Delete { key },
    };
    Txn {
        compares: vec![compare],
        ops: vec![op],
    }
}
