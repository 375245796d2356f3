//! Periodic maintenance of the stores and the caches: expiry, compaction, snapshots.

use std::time::Duration;

use setpoint_store::MaintenanceReport;

use crate::backend::Backend;
use crate::error::Error;
use crate::key;
use crate::registry::Registry;

/// The longest interval between two runs.
const EVERY: Duration = Duration::from_secs(10);
/// The shortest interval between two runs.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs the maintenance of a backend's store by the clock: expiries when they are due, compaction and snapshots at
/// intervals.
pub(crate) async fn run(registry: &Registry, backend: &Backend) -> Result<(), Error> {
    loop {
        // A revision must not be compacted before the caches have read it, however far the clock has jumped.
        backend.caught_up().await;
        let done = backend.store.maintain().await?;
        if let Some(compacted) = done.compacted {
            let oldest = key::version(compacted);
            let served = registry.caches.served();
            let resources = served.resources();
            let own = resources.filter(|resource| resource.backend.is(backend));
            own.for_each(|resource| resource.cache.trim(oldest));
        }
        tokio::select! {
            () = registry.clock.sleep(next_run(registry, &done)) => {}
            () = backend.store.became_full() => {}
        }
    }
}

/// The time until the next run. Only maintenance finds new space on a full disk, so it runs often then.
fn next_run(registry: &Registry, done: &MaintenanceReport) -> Duration {
    if done.full {
        return PAUSE;
    }
    let due = done.next_expiry.map_or(EVERY, |at| {
        Duration::from_millis(at.saturating_sub(registry.clock.millis()))
    });
    due.clamp(PAUSE, EVERY)
}
