//! Caches that are known only later.
//!
//! The registry asks for answers that need the caches, and the caches are the registry's: one of the two must come
//! first. Access is built on [`Later`], and the registry is put into it once it is there.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use setpoint_api::GroupResource;
use setpoint_cache::{Cache, Caches};

/// No caches at first, then those that are put in. It does not keep them alive.
#[derive(Default)]
pub struct Later(OnceLock<Weak<dyn Caches>>);

impl Later {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// From now on these are the caches. Only the first call counts.
    pub fn put(&self, caches: &Arc<dyn Caches>) {
        let _ = self.0.set(Arc::downgrade(caches));
    }
}

impl Caches for Later {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.0.get()?.upgrade()?.cache(resource)
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Later").field(&self.0.get().is_some()).finish()
    }
}
