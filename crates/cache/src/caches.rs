//! [`Caches`]: looks up the cache of a resource.

use std::sync::Arc;

use setpoint_api::{GroupResource, Gvr};

use crate::cache::Cache;

/// The caches of one API server: its own watch caches, or the informer caches of a remote process.
pub trait Caches: Send + Sync {
    /// The cache of a resource; `None` if the resource is not served.
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>>;

    /// The cache of a resource in one version. An informer factory starts an informer for it on the first call.
    fn cache_of(&self, resource: &Gvr) -> Option<Arc<Cache>> {
        self.cache(&resource.group_resource())
    }
}
