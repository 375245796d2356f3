//! What must be well for the server to be alive and ready.

use std::sync::Arc;

use setpoint_api::{GroupResource, Gvr, Key, ResourceVersion};
use setpoint_apiserver::health::Check;
use setpoint_kinds::bootstrap;
use setpoint_registry::Registry;
use setpoint_runtime::Caches;
use setpoint_schema::Tree;
use tokio_util::sync::CancellationToken;

/// All checks, under the names that Kubernetes gives them.
pub(super) fn all(registry: &Arc<Registry>, stop: &CancellationToken) -> Vec<Check> {
    let (store, caches, first, stop) = (
        registry.store().clone(),
        registry.clone(),
        registry.clone(),
        stop.clone(),
    );
    let created = created();
    vec![
        Check::live("ping", || Ok(())),
        Check::live("log", || Ok(())),
        Check::live("etcd", move || {
            store.check_writable().map_err(|error| error.to_string())
        }),
        Check::ready("informer-sync", move || synced(&caches)),
        Check::ready("poststarthook/start-system-namespaces-controller", move || {
            exist(&first, &created)
        }),
        Check::ready("shutdown", move || match stop.is_cancelled() {
            true => Err("the server is stopping".to_owned()),
            false => Ok(()),
        }),
    ]
}

/// Resolves once the objects that every cluster has are there.
pub(super) async fn ready(registry: &Registry) {
    for (resource, key) in created() {
        let Some(cache) = registry.cache(&resource) else {
            continue;
        };
        while cache.find(&key).is_none() {
            cache.reached(ResourceVersion(cache.version().0 + 1)).await;
        }
    }
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

/// The objects every cluster has from its first moment on.
fn created() -> Vec<(GroupResource, Key)> {
    let named = |(gvr, tree): (Gvr, _)| (gvr.group_resource(), key_of(&tree));
    bootstrap::objects().into_iter().map(named).collect()
}

fn key_of(tree: &Tree) -> Key {
    let text = |name| {
        tree.at(&["metadata", name])
            .and_then(Tree::as_str)
            .unwrap_or_default()
    };
    Key::new(text("namespace"), text("name"))
}

fn exist(registry: &Registry, objects: &[(GroupResource, Key)]) -> Result<(), String> {
    for (resource, key) in objects {
        if registry
            .cache(resource)
            .is_none_or(|cache| cache.find(key).is_none())
        {
            return Err(format!("{resource} {key} not created"));
        }
    }
    Ok(())
}
