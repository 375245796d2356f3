//! Compaction: forgetting the past by hand or by age. The cap on bytes is kept at every publish instead.

use crate::{Error, Millis, Revision, Store};

impl Store {
    /// Forgets everything before `revision`, which itself stays readable. Compacting below what is already
    /// forgotten does nothing.
    pub async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let replaced = self.inner.lane.compact(revision).await?;
        drop(replaced);
        Ok(())
    }

    /// Forgets what is older than the configured age; says up to where, if there was anything.
    pub(crate) async fn compact_by_age(&self, now: Millis) -> Result<Option<Revision>, Error> {
        let Some(limit) = now.checked_sub(self.inner.shared.config.history.age) else {
            return Ok(None);
        };
        let old = self.inner.shared.head().history.older_than(limit);
        if let Some(revision) = old {
            self.compact(revision).await?;
        }
        Ok(old)
    }
}
