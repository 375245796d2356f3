//! Expiry: expired keys are deleted by ordinary transactions, so watchers see ordinary deletes.
//!
//! An expired key stays visible until maintenance deletes it. A key that was written again in the meantime is not
//! deleted, because each delete compares the revision that had expired.

use std::sync::atomic::Ordering::Relaxed;

use crate::{Compare, Error, Millis, Op, Record, Store, Txn};

/// Maximum number of expired keys submitted at once.
const EXPIRE_KEYS: usize = 512;

impl Store {
    /// Deletes every key that has expired at `now` and returns their number.
    pub(crate) async fn expire(&self, now: Millis) -> Result<u64, Error> {
        let mut expired = 0;
        loop {
            let txns = self.due_deletes(now);
            if txns.is_empty() {
                return Ok(expired);
            }
            for outcome in self.inner.commit_path.commit_all(txns).await? {
                match outcome {
                    Ok(_) => expired += self.count_expired(),
                    Err(Error::Precondition { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn count_expired(&self) -> u64 {
        self.inner.shared.counters.expired.fetch_add(1, Relaxed);
        1
    }

    fn due_deletes(&self, now: Millis) -> Vec<Txn> {
        let head = self.inner.shared.head();
        let due = head.index.due(now).take(EXPIRE_KEYS);
        due.map(|record| delete_if_unchanged(record)).collect()
    }
}

fn delete_if_unchanged(record: &Record) -> Txn {
    Txn {
        compares: vec![Compare::Modified {
            key: record.key.clone(),
            revision: record.modified,
        }],
        ops: vec![Op::Delete {
            key: record.key.clone(),
        }],
    }
}
