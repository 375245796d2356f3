//! Where to find the cache of a resource.

use std::sync::Arc;

use setpoint_api::{GroupResource, Gvr};

use crate::cache::Cache;

/// All caches of one server: its own, or the mirrors that a remote process keeps.
pub trait Caches: Send + Sync {
    /// The cache of a resource; `None` if nothing of the kind is served.
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>>;

    /// The same for one who knows in which version it wants the resource. Who mirrors a server may begin to on being
    /// asked.
    fn cache_of(&self, resource: &Gvr) -> Option<Arc<Cache>> {
        self.cache(&resource.group_resource())
    }
}
