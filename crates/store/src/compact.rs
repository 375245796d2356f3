//! Compaction of the history, by the caller or by age. The limit on bytes is enforced when a batch closes instead.

use crate::{Error, Millis, Revision, Store};

impl Store {
    /// Drops the history before `revision`, which itself stays readable. Compacting below the current compacted
    /// revision does nothing.
    pub async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let replaced = self.inner.commit_path.compact(revision).await?;
        drop(replaced);
        Ok(())
    }

    /// Compacts the history that is older than the configured age; returns the revision, if there was any.
    pub(crate) async fn compact_by_age(&self, now: Millis) -> Result<Option<Revision>, Error> {
        let Some(limit) = now.checked_sub(self.inner.shared.config.history.age) else {
            return Ok(None);
        };
        let old = self.inner.shared.head().history.newest_at(limit);
        if let Some(revision) = old {
            self.compact(revision).await?;
        }
        Ok(old)
    }
}
