//! What must be well for the server to be alive and ready.

use std::sync::Arc;

use setpoint_apiserver::health::Check;
use setpoint_registry::Registry;
use setpoint_runtime::Caches;
use tokio_util::sync::CancellationToken;

/// All checks, under the names that Kubernetes gives them.
pub(super) fn all(registry: &Arc<Registry>, stop: &CancellationToken) -> Vec<Check> {
    let (store, caches, first, stop) = (
        registry.store().clone(),
        registry.clone(),
        registry.clone(),
        stop.clone(),
    );
    vec![
        Check::live("ping", || Ok(())),
        Check::live("log", || Ok(())),
        Check::live("etcd", move || {
            store.check_writable().map_err(|error| error.to_string())
        }),
        Check::ready("informer-sync", move || synced(&caches)),
        Check::ready(
            "poststarthook/start-system-namespaces-controller",
            move || match first.is_started() {
                true => Ok(()),
                false => Err("the first objects are not there yet".to_owned()),
            },
        ),
        Check::ready("shutdown", move || match stop.is_cancelled() {
            true => Err("the server is stopping".to_owned()),
            false => Ok(()),
        }),
    ]
}

fn synced(registry: &Registry) -> Result<(), String> {
    for kind in registry.kinds().iter() {
        let resource = kind.about().gvr.group_resource();
        if registry.cache(&resource).is_none_or(|cache| !cache.is_synced()) {
            return Err(format!("{resource} not synced"));
        }
    }
    Ok(())
}
