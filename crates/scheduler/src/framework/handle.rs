//! [`Handle`]: what the constructors of plugins are given.

use std::sync::Arc;

use setpoint_api::{Clock, GroupResource, SystemClock};
use setpoint_runtime::{Cache, Caches};

use super::waiting_pods::WaitingPods;

/// The caches of the resources that a plugin reads besides pods and nodes, and the pods that wait for a permission. The
/// default has no caches, for tests of plugins.
#[derive(Clone)]
pub struct Handle {
    caches: Option<Arc<dyn Caches>>,
    waiting_pods: Arc<WaitingPods>,
    clock: Arc<dyn Clock>,
}

impl Default for Handle {
    /// A handle without caches: plugins are built with it to check their configuration, and by tests.
    fn default() -> Self {
        Self {
            caches: None,
            waiting_pods: Arc::default(),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl Handle {
    pub fn new(caches: Arc<dyn Caches>, clock: Arc<dyn Clock>) -> Self {
        Self {
            caches: Some(caches),
            waiting_pods: Arc::default(),
            clock,
        }
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The pods that a Permit plugin lets wait.
    pub fn waiting_pods(&self) -> &Arc<WaitingPods> {
        &self.waiting_pods
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
