//! The caches of a remote process: one for each resource it reads, each kept by a reflector.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Clock, GroupResource, Gvr};
use setpoint_cache::{Cache, Caches};
use setpoint_client::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Reflector, Scope};
use crate::reconcile::Error;

/// The remote form of [`Caches`]: it mirrors the resources it was told of, once each, for all readers.
#[derive(Debug)]
pub struct Reflected {
    client: Client,
    clock: Arc<dyn Clock>,
    resources: BTreeMap<GroupResource, (Gvr, Arc<Cache>)>,
}

impl Reflected {
    pub fn new(client: Client, clock: Arc<dyn Clock>, resources: impl IntoIterator<Item = Gvr>) -> Self {
        let mirror = |resource: Gvr| {
            let name = resource.group_resource();
            (name.clone(), (resource, Arc::new(Cache::new(name))))
        };
        Self {
            client,
            clock,
            resources: resources.into_iter().map(mirror).collect(),
        }
    }

    /// Keeps all caches until stopped.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), Error> {
        let mut reflectors = JoinSet::new();
        for (resource, cache) in self.resources.values() {
            let (cache, clock) = (cache.clone(), self.clock.clone());
            let reflector = Reflector::new(&self.client, resource.clone(), Scope::default(), cache, clock);
            reflectors.spawn(reflector.run(stop.clone()));
        }
        while let Some(ended) = reflectors.join_next().await {
            if ended.is_err() {
                return Err(Error::Panicked("a reflector".to_owned()));
            }
        }
        Ok(())
    }
}

impl Caches for Reflected {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.resources.get(resource).map(|(_, cache)| cache.clone())
    }
}
