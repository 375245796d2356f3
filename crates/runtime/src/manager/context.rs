//! What controllers are given.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Clock, GroupResource, Gvr};
use setpoint_cache::{Cache, Caches};
use setpoint_client::{Client, Object};

use crate::activity::{Activity, Registered};
use crate::events::{self, Recorder, Sink};
use crate::freshness::Tracked;
use crate::lister::Lister;
use crate::metrics::Metrics;
use crate::reconcile::Error;

/// Everything a controller needs from outside. Cloning shares it all.
#[derive(Clone)]
pub struct Context {
    /// What is there, for every resource.
    pub caches: Arc<dyn Caches>,
    /// Notes the writes of the reconcile that makes them.
    pub client: Client,
    /// The one source of time.
    pub clock: Arc<dyn Clock>,
    /// Takes down what users should be told.
    pub events: Recorder,
    /// The figures of all controllers.
    pub metrics: Arc<Metrics>,
    /// Who has work.
    pub activity: Activity,
    /// How often controllers look at everything again that do not say so themselves; about so often, so that not all do
    /// at once. Never, where the caches are the server's own.
    pub resync: Option<Duration>,
}

impl Context {
    /// The context, and the sink that must be run for its events to be written.
    pub fn new(caches: Arc<dyn Caches>, client: Client, clock: Arc<dyn Clock>) -> (Self, Sink) {
        let tracked = Arc::new(Tracked::new(client.serve().clone()));
        let client = client.over(tracked);
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

    /// The cache of a resource that the caller cannot do without.
    pub fn cache(&self, resource: &GroupResource) -> Result<Arc<Cache>, Error> {
        let cache = self.caches.cache(resource);
        cache.ok_or_else(|| Error::Unserved(resource.clone()))
    }

    /// The same for one who knows in which version it wants the resource.
    pub fn cache_of(&self, resource: &Gvr) -> Result<Arc<Cache>, Error> {
        let cache = self.caches.cache_of(resource);
        cache.ok_or_else(|| Error::Unserved(resource.group_resource()))
    }

    /// Lets others ask whether there are events to be written.
    pub(super) fn tell_events(&self) -> Registered {
        let events = self.events.clone();
        self.activity.register("event recorder", move || {
            let pending = events.pending();
            (pending > 0).then(|| format!("{pending} events to write"))
        })
    }

    /// Reads the cached objects of a type.
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
