//! Linearizable requests where several servers share one etcd: before a request is executed, the caches reach every write
//! that any server had acknowledged when it arrived. So a client may send each request to another server
//! (upstream: `ConsistentListFromCache`).

use std::time::Duration;

use setpoint_api::call::Verb;
use setpoint_api::{Request, ResourceVersion, Status};

use crate::backend::Backend;
use crate::registry::Registry;
use crate::request_context::RequestContext;
use crate::{error, key};

/// How long a request waits for the caches, if etcd responds but its changes do not arrive.
const FRESH_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the request must see the newest objects: every one but a read of any version (`resourceVersion=0`). Another
/// server may have returned the version of a read, so that it may be newer than the caches.
pub(crate) fn needs_newest(verb: &Verb) -> bool {
    let version = match verb {
        Verb::Get(options) => options.resource_version,
        Verb::List(options) => options.resource_version,
        Verb::Watch(options) => options.resource_version,
        _ => None,
    };
    version != Some(ResourceVersion::ZERO)
}

/// Waits until the caches that a request reads have every acknowledged write: that of its resource and, for a write, those
/// of the default backend, which admission reads.
pub(crate) async fn wait_for(registry: &Registry, request: &Request) -> Result<(), Status> {
    let default = registry.default_backend();
    let served = registry.find_version(&request.target.resource);
    match served.map(|served| served.resource.backend.clone()) {
        Some(own) if !own.is(default) => {
            let is_read = matches!(request.verb, Verb::Get(_) | Verb::List(_) | Verb::Watch(_));
            wait_of_write(registry, &own, !is_read).await
        }
        _ => wait(registry, default).await,
    }
}

async fn wait_of_write(registry: &Registry, own: &Backend, reads_default: bool) -> Result<(), Status> {
    let default = async {
        match reads_default {
            true => wait(registry, registry.default_backend()).await,
            false => Ok(()),
        }
    };
    tokio::try_join!(wait(registry, own), default).map(drop)
}

/// Waits until the caches of a backend have every acknowledged write. A server that stops does not wait: that is when
/// leases are released.
async fn wait(registry: &Registry, backend: &Backend) -> Result<(), Status> {
    let confirmed = backend.store.confirmed_revision().await;
    let version = key::version(confirmed.map_err(error::from_store)?);
    tokio::select! {
        biased;
        () = backend.progress.reached(version) => Ok(()),
        () = registry.ended.cancelled() => Ok(()),
        () = registry.clock.sleep(FRESH_TIMEOUT) => {
            Err(Status::too_large_resource_version(version, backend.progress.version()))
        }
    }
}

/// Waits before a request is executed again because of a conflict. Admission reads caches, which may not have the write of
/// another server yet. After a conflict on another backend than these, the commit has waited for its caches.
pub(crate) async fn wait_after_conflict(context: &RequestContext<'_>) -> Result<(), Status> {
    let (registry, own) = (context.registry, context.backend());
    let default = registry.default_backend();
    match default.store.is_replica() {
        true => wait_of_write(registry, own, !own.is(default)).await,
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::options::{GetOptions, ListOptions, WatchOptions};

    use super::*;

    #[track_caller]
    fn check(version: Option<u64>, expected: bool) {
        let resource_version = version.map(ResourceVersion);
        let get = Verb::Get(GetOptions { resource_version });
        let list = Verb::List(ListOptions {
            resource_version,
            ..ListOptions::default()
        });
        let watch = Verb::Watch(WatchOptions {
            resource_version,
            ..WatchOptions::default()
        });
        for verb in [get, list, watch] {
            assert_eq!(needs_newest(&verb), expected);
        }
    }

    /// OC3
    #[test]
    fn every_read_but_one_of_any_version_is_linearizable() {
        check(None, true);
        check(Some(0), false);
        check(Some(7), true);
    }
}
