//! Periodic maintenance: expiry, compaction by age, snapshot files. The caller calls it by its own clock.

use crate::{
    Error, Millis, Revision, Store,
    log::file::{compactor::Compactor, snapshot_file::Source},
};

/// Result of one maintenance run, and when the next one is due.
#[derive(Clone, Debug, Default)]
pub struct MaintenanceReport {
    /// Number of expired keys that were deleted.
    pub expired: u64,
    /// Number of values of a cluster that could not be decoded before, and now can.
    pub decoded: u64,
    /// The revision that the history was compacted to, if any of it was too old.
    pub compacted: Option<Revision>,
    /// The revision of the snapshot file that was written.
    pub snapshot_file: Option<Revision>,
    /// When the next key expires. Later writes may add an earlier one.
    pub next_expiry: Option<Millis>,
    /// Whether the disk is full. The next run should follow soon, because only maintenance finds new space.
    pub full: bool,
}

impl Store {
    /// One maintenance run: deletes expired keys, tries to decode what could not be decoded, compacts history that is
    /// too old, looks for free space, and writes a snapshot file when the log has grown long. It survives a full disk.
    pub async fn maintain(&self) -> Result<MaintenanceReport, Error> {
        let now = (self.inner.shared.config.now)();
        Ok(MaintenanceReport {
            expired: unless_full(self.expire(now).await)?,
            decoded: self.retry_undecodable().await,
            compacted: unless_full(self.compact_by_age(now).await)?,
            snapshot_file: unless_full(self.shorten_log().await)?,
            next_expiry: self.inner.shared.head().index.next_expiry(),
            full: self.inner.shared.space.is_full(),
        })
    }

    /// Writes a snapshot file if it is due, or if the disk is full and it would free some of the log.
    async fn shorten_log(&self) -> Result<Option<Revision>, Error> {
        let Some(compactor) = &self.inner.compactor else {
            return Ok(None);
        };
        let space = self.inner.commit_path.check_space().await?;
        if !self.is_snapshot_file_due() && !space.snapshot_file_helps {
            return Ok(None);
        }
        let written = self.write_snapshot_file(compactor.clone()).await?;
        if space.snapshot_file_helps {
            self.inner.commit_path.check_space().await?;
        }
        Ok(written)
    }

    fn is_snapshot_file_due(&self) -> bool {
        let metrics = self.metrics();
        let limit = self.inner.shared.config.snapshot_file_after_bytes;
        metrics.log_bytes > limit.max(metrics.index_bytes)
    }

    /// Writes a snapshot file, then removes the segments it covers. Writers are not blocked.
    async fn write_snapshot_file(&self, compactor: Compactor) -> Result<Option<Revision>, Error> {
        let Some(permit) = compactor.try_acquire() else {
            return Ok(None);
        };
        let snapshot = self.snapshot();
        let revision = snapshot.revision();
        let writer = compactor.clone();
        let transformer = self.inner.sealer.clone();
        let write = move |stop| {
            let source = Source {
                snapshot: &snapshot,
                transformer: transformer.as_deref(),
            };
            let resealed = writer.write_snapshot_file(&source, &stop)?;
            Ok((permit, resealed))
        };
        let (permit, resealed) = self.inner.workers.run(write).await?;
        *self.inner.shared.resealed.lock() = resealed;
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

/// The result of a step of maintenance, which a full disk puts off until there is space.
fn unless_full<T: Default>(result: Result<T, Error>) -> Result<T, Error> {
    match result {
        Err(error) if error.is_no_space() => {
            tracing::warn!(%error, "maintenance of the store is put off");
            Ok(T::default())
        }
        result => result,
    }
}
