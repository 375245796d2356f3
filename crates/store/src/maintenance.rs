//! Periodic maintenance: expiry, compaction by age, snapshot files. The caller calls it by its own clock.

use crate::{Error, Millis, Revision, Store, log::file::compactor::Compactor};

/// Result of one maintenance run, and when the next one is due.
#[derive(Clone, Debug, Default)]
pub struct MaintenanceReport {
    /// Number of expired keys that were deleted.
    pub expired: u64,
    /// The revision that the history was compacted to, if any of it was too old.
    pub compacted: Option<Revision>,
    /// The revision of the snapshot file that was written.
    pub snapshot_file: Option<Revision>,
    /// When the next key expires. Later writes may add an earlier one.
    pub next_expiry: Option<Millis>,
}

impl Store {
    /// One maintenance run: deletes expired keys, compacts history that is too old, and writes a snapshot file when
    /// the log has grown long.
    pub async fn maintain(&self) -> Result<MaintenanceReport, Error> {
        let now = (self.inner.shared.config.now)();
        Ok(MaintenanceReport {
            expired: self.expire(now).await?,
            compacted: self.compact_by_age(now).await?,
            snapshot_file: self.write_snapshot_file_if_due().await?,
            next_expiry: self.inner.shared.head().index.next_expiry(),
        })
    }

    async fn write_snapshot_file_if_due(&self) -> Result<Option<Revision>, Error> {
        let metrics = self.metrics();
        let limit = self
            .inner
            .shared
            .config
            .snapshot_file_after_bytes
            .max(metrics.index_bytes);
        match &self.inner.compactor {
            Some(compactor) if metrics.log_bytes > limit => self.write_snapshot_file(compactor.clone()).await,
            _ => Ok(None),
        }
    }

    /// Writes a snapshot file, then removes the segments it covers. Writers are not blocked.
    async fn write_snapshot_file(&self, compactor: Compactor) -> Result<Option<Revision>, Error> {
        let Some(permit) = compactor.try_acquire() else {
            return Ok(None);
        };
        let snapshot = self.snapshot();
        let revision = snapshot.revision();
        let writer = compactor.clone();
        let permit = self
            .inner
            .workers
            .run(move |stop| writer.write_snapshot_file(&snapshot, &stop).map(|()| permit))
            .await?;
        let released = self.inner.commit_path.release(revision).await?;
        let remove = move |_| compactor.remove_obsolete(revision, released, permit);
        self.inner.workers.run(remove).await?;
        let counters = &self.inner.shared.counters;
        counters
            .snapshot_files
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Some(revision))
    }
}
