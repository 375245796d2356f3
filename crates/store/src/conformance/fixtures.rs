//! Fixtures of the conformance checks: stores, operations, compares, and contents as text.

use std::{future::Future, ops::Deref, sync::Arc};

use bytes::Bytes;

use super::{ManualClock, NewStore};
use crate::{Compare, Error, Op, Put, Record, Revision, Snapshot, Store, Txn, TxnResponse, Watcher};

/// An empty store. An engine that others use may start at any revision.
pub(super) struct Fresh {
    store: Store,
    base: Revision,
}

impl Fresh {
    pub(super) fn new(store: Store) -> Fresh {
        let base = store.revision();
        Fresh { store, base }
    }

    /// The revision of the commit with this number.
    pub(super) fn at(&self, number: u64) -> Revision {
        Revision::new(self.base.get() + number)
    }

    /// The number of the commit with this revision.
    pub(super) fn number(&self, revision: Revision) -> u64 {
        revision.get() - self.base.get()
    }

    pub(super) fn into_store(self) -> Store {
        self.store
    }
}

impl Deref for Fresh {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

pub(super) fn fresh(make: NewStore<'_>) -> Fresh {
    Fresh::new(make(ManualClock::default().config()))
}

/// Runs a future to completion on this thread.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime
        .expect("a runtime without drivers needs nothing")
        .block_on(future)
}

pub(super) fn put(store: &Store, key: &str, value: &str) -> Revision {
    commit(store, op_put(key, value)).revision
}

pub(super) fn put_raw(store: &Store, key: &[u8]) {
    let put = Put {
        key: Bytes::copy_from_slice(key),
        ..Put::default()
    };
    commit(store, Op::Put(put));
}

pub(super) fn put_until(store: &Store, key: &str, expires: u64) {
    let put = Put {
        expires: Some(expires),
        ..put_of(key, "")
    };
    commit(store, Op::Put(put));
}

pub(super) fn delete(store: &Store, key: &str) -> Revision {
    commit(store, op_delete(key)).revision
}

#[track_caller]
pub(super) fn commit(store: &Store, op: Op) -> TxnResponse {
    let txn = Txn {
        compares: vec![],
        ops: vec![op],
    };
    wait(store.commit(txn)).expect("an unguarded transaction commits")
}

pub(super) fn write_if(store: &Store, compare: Compare) -> Result<Revision, Error> {
    let txn = Txn {
        compares: vec![compare],
        ops: vec![op_put("a", "w")],
    };
    wait(store.commit(txn)).map(|committed| committed.revision)
}

#[track_caller]
pub(super) fn check_compare(store: &Store, compares: Vec<Compare>, fails_at: Option<usize>) {
    let txn = Txn {
        compares,
        ops: vec![op_put("a", "x")],
    };
    let failed = match wait(store.commit(txn)) {
        Err(Error::Precondition { index, .. }) => Some(index),
        Err(error) => panic!("unexpected {error}"),
        Ok(_) => None,
    };
    assert_eq!(failed, fails_at);
}

pub(super) fn put_of(key: &str, value: &str) -> Put {
    Put {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..Put::default()
    }
}

pub(super) fn op_put(key: &str, value: &str) -> Op {
    Op::Put(put_of(key, value))
}

pub(super) fn op_delete(key: &str) -> Op {
    Op::Delete {
        key: Bytes::copy_from_slice(key.as_bytes()),
    }
}

pub(super) fn modified(key: &str, revision: Revision) -> Compare {
    Compare::Modified {
        key: Bytes::copy_from_slice(key.as_bytes()),
        revision,
    }
}

pub(super) fn unchanged(prefix: &str, since: Revision) -> Compare {
    Compare::Unchanged {
        prefix: Bytes::copy_from_slice(prefix.as_bytes()),
        since,
    }
}

pub(super) fn absent(key: &str) -> Compare {
    Compare::Absent {
        key: Bytes::copy_from_slice(key.as_bytes()),
    }
}

pub(super) fn present(key: &str) -> Compare {
    Compare::Present {
        key: Bytes::copy_from_slice(key.as_bytes()),
    }
}

pub(super) fn keys(records: impl Iterator<Item = Arc<Record>>) -> String {
    let keys: Vec<_> = records.map(|record| text(&record.key)).collect();
    keys.join(" ")
}

pub(super) fn contents(snapshot: &Snapshot) -> String {
    let pair = |record: &Arc<Record>| format!("{}={}", text(&record.key), text(&record.value));
    let pairs: Vec<_> = snapshot.records().map(pair).collect();
    pairs.join(" ")
}

/// All pending events of a watcher, as `number:key=value(old value)` or `number:key-old value`, by the number of the
/// commit.
pub(super) fn drain(watcher: &mut Watcher, store: &Fresh) -> String {
    let mut texts = Vec::new();
    while let Some(batch) = watcher.try_next().expect("the watcher is not cut off") {
        for event in batch.events {
            let old = event.old.as_ref().map(|record| text(&record.value));
            let key = text(event.key());
            let number = store.number(event.revision);
            texts.push(match (&event.new, old) {
                (Some(new), None) => format!("{number}:{key}={}", text(&new.value)),
                (Some(new), Some(old)) => {
                    format!("{number}:{key}={}({old})", text(&new.value))
                }
                (None, old) => format!("{number}:{key}-{}", old.unwrap_or_default()),
            });
        }
    }
    texts.join(" ")
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
