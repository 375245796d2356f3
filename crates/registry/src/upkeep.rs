//! Upkeep: what keeps the store and the caches in order as time goes by.

use std::time::Duration;

use crate::error::Error;
use crate::key;
use crate::registry::Registry;

/// At least this often the store is looked after.
const EVERY: Duration = Duration::from_secs(10);
/// At most this often.
const PAUSE: Duration = Duration::from_secs(1);

/// Drives the store's upkeep by the clock: expiries when they are due, compaction and images by and by.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    loop {
        // What the caches have not seen must not be forgotten, however far the clock has jumped.
        let newest = key::version(registry.store.revision());
        registry.progress.reached(newest).await;
        let done = registry.store.upkeep().await?;
        if let Some(compacted) = done.compacted {
            let oldest = key::version(compacted);
            let table = registry.table();
            let resources = table.resources();
            resources.for_each(|resource| resource.cache.trim(oldest));
        }
        let due = done.next_expiry.map_or(EVERY, |at| {
            Duration::from_millis(at.saturating_sub(registry.clock.millis()))
        });
        registry.clock.sleep(due.clamp(PAUSE, EVERY)).await;
    }
}
