//! Upkeep: what keeps the store and the caches in order as time goes by, and what every cluster starts with.

use std::time::Duration;

use setpoint_api::options::WriteOptions;
use setpoint_api::{Status, Target, User};

use crate::call::Call;
use crate::error::Error;
use crate::key;
use crate::registry::Registry;
use crate::verbs::create_object;

/// At least this often the store is looked after.
const EVERY: Duration = Duration::from_secs(10);
/// At most this often.
const PAUSE: Duration = Duration::from_secs(1);

/// Drives the store's upkeep by the clock: expiries when they are due, compaction and images by and by.
pub(crate) async fn run(registry: &Registry) -> Result<(), Error> {
    loop {
        let done = registry.store.upkeep().await?;
        if let Some(compacted) = done.compacted {
            let oldest = key::version(compacted);
            registry
                .resources()
                .for_each(|resource| resource.cache.trim(oldest));
        }
        let due = done.next_expiry.map_or(EVERY, |at| {
            Duration::from_millis(at.saturating_sub(registry.clock.millis()))
        });
        registry.clock.sleep(due.clamp(PAUSE, EVERY)).await;
    }
}

impl Registry {
    /// Creates what every cluster has and this one has not. Never resolves unless it fails.
    pub(crate) async fn bootstrap(&self) -> Result<(), Error> {
        let user = std::sync::Arc::new(User::component("system:apiserver"));
        for (gvr, tree) in setpoint_kinds::bootstrap::objects() {
            let object = gvr.resource.to_string();
            let failed = |status: Status| Error::Bootstrap {
                object: object.clone(),
                status,
            };
            let resource = self
                .resource(&gvr)
                .ok_or_else(|| failed(Status::no_such_resource()))?;
            let draft = resource.kind.draft(tree);
            let mut draft = draft.map_err(|problem| failed(Status::internal(problem)))?;
            draft.default_fields();
            let call = Call::new(self, resource, user.clone(), Target::all(gvr));
            match create_object(&call, draft, &WriteOptions::default()).await {
                Err(status) if !status.is_already_exists() => return Err(failed(status)),
                _ => {}
            }
        }
        std::future::pending().await
    }
}
