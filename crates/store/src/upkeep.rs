//! Upkeep: the work that comes due with time. The caller drives it by its own clock.

use crate::{Error, Millis, Revision, Store, log::file::keeper::Keeper};

/// What one pass did, and when the next one has something to do.
#[derive(Clone, Debug, Default)]
pub struct Upkeep {
    /// How many keys were removed because their time had come.
    pub expired: u64,
    /// Up to where the past was forgotten for its age.
    pub compacted: Option<Revision>,
    /// The revision of the image that was written.
    pub image: Option<Revision>,
    /// When the next key is due. Writes may bring an earlier one.
    pub next_expiry: Option<Millis>,
}

impl Store {
    /// One pass: expires what is due, forgets what is too old, and writes an image of the map when the log
    /// has grown long.
    pub async fn upkeep(&self) -> Result<Upkeep, Error> {
        let now = (self.inner.shared.config.now)();
        Ok(Upkeep {
            expired: self.expire(now).await?,
            compacted: self.compact_by_age(now).await?,
            image: self.write_image_if_due().await?,
            next_expiry: self.inner.shared.head().index.next_expiry(),
        })
    }

    async fn write_image_if_due(&self) -> Result<Option<Revision>, Error> {
        let metrics = self.metrics();
        let limit = self
            .inner
            .shared
            .config
            .image_after_bytes
            .max(metrics.index_bytes);
        match &self.inner.keeper {
            Some(keeper) if metrics.log_bytes > limit => self.write_image(keeper.clone()).await,
            _ => Ok(None),
        }
    }

    /// Writes an image, then lets go of the log that it makes superfluous. Writers go on meanwhile.
    async fn write_image(&self, keeper: Keeper) -> Result<Option<Revision>, Error> {
        let Some(turn) = keeper.try_turn() else {
            return Ok(None);
        };
        let snapshot = self.snapshot();
        let revision = snapshot.revision();
        let writer = keeper.clone();
        let turn = self
            .inner
            .workers
            .run(move |stop| writer.write_image(&snapshot, &stop).map(|()| turn))
            .await?;
        let released = self.inner.lane.release(revision).await?;
        let sweep = move |_| keeper.sweep(revision, released, turn);
        self.inner.workers.run(sweep).await?;
        let counters = &self.inner.shared.counters;
        counters.images.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Some(revision))
    }
}
