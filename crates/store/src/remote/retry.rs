//! Another attempt at values that could not be decoded: a KMS plugin that failed may be back, or a key may be configured
//! by now.
//!
//! The change that wrote such a value is in the past, and watchers have read on. So a value that can be decoded now is
//! touched: the cluster assigns it a new revision, at which the replicas of all servers apply it.

use crate::{
    RemoteCompare, RemoteCondition, RemoteEntry, RemoteOp, RemoteOutcome, RemoteTxn, Store,
    commit::CommitPath,
    remote::{propose::Proposer, replica},
    workers::StopFlag,
};

impl Store {
    /// Touches the values that can be decoded now, and returns how many. A failure is logged: the next run repeats it.
    pub(crate) async fn retry_undecodable(&self) -> u64 {
        let CommitPath::Replicated(proposer) = &self.inner.commit_path else {
            return 0;
        };
        let mut touched = 0;
        for entry in self.decodable_entries().await {
            match proposer.touch(&entry).await {
                Ok(RemoteOutcome::Committed { .. }) => touched += 1,
                // It has been written since.
                Ok(RemoteOutcome::Rejected { .. }) => {}
                Err(error) => tracing::warn!(%error, "a value that can be decoded again was not written"),
            }
        }
        touched
    }

    /// The stored values that could not be decoded and now can. Decoding may wait for a plugin.
    async fn decodable_entries(&self) -> Vec<RemoteEntry> {
        let shared = self.inner.shared.clone();
        let entries: Vec<_> = {
            let undecodable = shared.undecodable.lock();
            undecodable.values().map(|value| value.entry.clone()).collect()
        };
        if entries.is_empty() {
            return entries;
        }
        let job = move |stop: StopFlag| {
            let is_decodable = |entry: &RemoteEntry| {
                !stop.is_set() && replica::decode(&shared.config, entry.clone()).is_ok()
            };
            Ok(entries.into_iter().filter(is_decodable).collect())
        };
        // It fails only when the store is closed.
        self.inner.workers.run(job).await.unwrap_or_default()
    }
}

impl Proposer {
    /// Has the cluster write the value of an entry once more, unless it has been written since.
    async fn touch(&self, entry: &RemoteEntry) -> Result<RemoteOutcome, crate::Error> {
        let unchanged = RemoteCompare {
            key: entry.key.clone(),
            condition: RemoteCondition::Modified(entry.modified),
        };
        let touch = RemoteOp::Touch {
            key: entry.key.clone(),
        };
        let txn = RemoteTxn {
            compares: vec![unchanged],
            ops: vec![touch],
        };
        self.propose(txn).await
    }
}
