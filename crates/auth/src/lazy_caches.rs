//! [`LazyCaches`]: caches that are set after construction.
//!
//! The registry needs the reviews of this crate, and these need the registry's caches: one of the two must be built
//! first. `AccessControl` is built on [`LazyCaches`], which is set once the registry exists.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use setpoint_api::GroupResource;
use setpoint_cache::{Cache, Caches};

/// Empty until it is set. It does not keep the caches alive.
#[derive(Default)]
pub struct LazyCaches(OnceLock<Weak<dyn Caches>>);

impl LazyCaches {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Sets the caches. Only the first call has an effect.
    pub fn set(&self, caches: &Arc<dyn Caches>) {
        let _ = self.0.set(Arc::downgrade(caches));
    }
}

impl Caches for LazyCaches {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.0.get()?.upgrade()?.cache(resource)
    }
}

impl fmt::Debug for LazyCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LazyCaches")
            .field(&self.0.get().is_some())
            .finish()
    }
}
