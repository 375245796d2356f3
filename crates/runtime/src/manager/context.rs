//! [`Context`]: caches, client, clock and recorders for controllers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Clock, GroupResource, Gvr};
use setpoint_cache::{Cache, Caches};
use setpoint_client::{Client, Object};

use crate::activity::{Activity, ActivityRegistration};
use crate::events::{self, Recorder, Sink};
use crate::lister::Lister;
use crate::metrics::Metrics;
use crate::reconcile::Error;

/// The dependencies of a controller. Cloning shares them.
#[derive(Clone)]
pub struct Context {
    /// The caches of all resources.
    pub caches: Arc<dyn Caches>,
    /// The client of the process, for requests outside a reconcile. A reconcile is given one that records its writes.
    pub client: Client,
    /// The one source of time.
    pub clock: Arc<dyn Clock>,
    /// Records Kubernetes events.
    pub events: Recorder,
    /// The metrics of all controllers.
    pub metrics: Arc<Metrics>,
    /// The components that have pending work.
    pub activity: Activity,
    /// The resync period of controllers that have none of their own, applied with jitter. `None` on the server's own
    /// caches.
    pub resync: Option<Duration>,
}

impl Context {
    /// The context, and the sink that must be run for its events to be written.
    pub fn new(caches: Arc<dyn Caches>, client: Client, clock: Arc<dyn Clock>) -> (Self, Sink) {
        let (events, sink) = events::recorder(client.clone(), clock.clone());
        let context = Self {
            caches,
            client,
            clock,
            events,
            metrics: Arc::default(),
            activity: Activity::default(),
            resync: None,
        };
        (context, sink)
    }

    /// The same context for one component of the process: the field manager owns the fields that the component writes,
    /// its events included. Over HTTP the server takes the name from the user agent.
    #[must_use]
    pub fn with_field_manager(&self, manager: &str) -> Self {
        Self {
            client: self.client.with_field_manager(manager),
            events: self.events.with_field_manager(manager),
            ..self.clone()
        }
    }

    /// The cache of a resource; an error if it is not served.
    pub fn cache(&self, resource: &GroupResource) -> Result<Arc<Cache>, Error> {
        let cache = self.caches.cache(resource);
        cache.ok_or_else(|| Error::Unserved(resource.clone()))
    }

    /// The cache of a resource in one version; an error if it is not served.
    pub fn cache_of(&self, resource: &Gvr) -> Result<Arc<Cache>, Error> {
        let cache = self.caches.cache_of(resource);
        cache.ok_or_else(|| Error::Unserved(resource.group_resource()))
    }

    /// Registers the recorder's unwritten events as pending work.
    pub(super) fn register_activity(&self) -> ActivityRegistration {
        let events = self.events.clone();
        self.activity.register("event recorder", move || {
            let pending = events.pending();
            (pending > 0).then(|| format!("{pending} events to write"))
        })
    }

    /// A lister of the cached objects of a type.
    pub fn lister<T: Object>(&self) -> Result<Lister<T>, Error> {
        self.cache_of(&T::resource()).map(Lister::new)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
