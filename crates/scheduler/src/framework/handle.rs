//! [`Handle`]: what the constructors of plugins are given.

use std::sync::Arc;

use setpoint_api::GroupResource;
use setpoint_runtime::{Cache, Caches};

/// The caches of the resources that a plugin reads besides pods and nodes. The default has none, for tests of plugins.
#[derive(Clone, Default)]
pub struct Handle {
    caches: Option<Arc<dyn Caches>>,
}

impl Handle {
    pub fn new(caches: Arc<dyn Caches>) -> Self {
        Self { caches: Some(caches) }
    }

    /// The cache of a resource; `None` if it is not served.
    pub fn cache(&self, group: &str, resource: &str) -> Option<Arc<Cache>> {
        self.caches.as_ref()?.cache(&GroupResource::new(group, resource))
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
