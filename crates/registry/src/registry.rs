//! The [`Registry`]: the verbs over the watch caches and the store, and the tasks that keep both up to date.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use setpoint_api::{Clock, GroupResource, Gvr, Key, Request, Response, Serve, ServeFuture, Status, Stored};
use setpoint_cache::{Cache, Caches};
use setpoint_registry_api::{Admit, VirtualResource, WebhookClient};
use setpoint_store::Store;
use setpoint_strategy::{BootstrapObject, Kind, KindInfo, Kinds};

use crate::backend::Backend;
use crate::confirmed_read;
use crate::conversion::Conversions;
use crate::crd;
use crate::error::Error;
use crate::feed::Feed;
use crate::large_requests::{self, LargeRequests};
use crate::metrics::{Counters, Metrics};
use crate::request_context::RequestContext;
use crate::served_resources::{Resource, ServedVersion};
use crate::subresources::RecentBindings;
use crate::watch_caches::WatchCaches;
use crate::{bootstrap, conversion, convert, error, key, maintenance, verbs};

/// The components and settings of a [`Registry`].
pub struct Config {
    /// The store and the caches of its objects.
    pub caches: Arc<WatchCaches>,
    /// The objects that [`Registry::run`] creates or reconciles first.
    pub bootstrap: Vec<BootstrapObject>,
    pub admit: Arc<dyn Admit>,
    pub virtual_resources: Arc<dyn VirtualResource>,
    /// Calls the conversion webhooks of custom kinds.
    pub webhooks: Arc<dyn WebhookClient>,
    pub clock: Arc<dyn Clock>,
    /// How long an event lives after its last write.
    pub event_ttl: Duration,
    /// Whether privileged containers are allowed (upstream: `--allow-privileged`).
    pub allow_privileged: bool,
}

/// The API, served from a store.
///
/// [`Registry::run`] must be running for reads to make progress: it brings what was committed to the caches.
pub struct Registry {
    pub(crate) caches: Arc<WatchCaches>,
    pub(crate) admit: Arc<dyn Admit>,
    pub(crate) virtual_resources: Arc<dyn VirtualResource>,
    pub(crate) conversions: Arc<Conversions>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) event_ttl: Duration,
    pub(crate) allow_privileged: bool,
    pub(crate) counters: Arc<Counters>,
    pub(crate) bootstrap: Vec<BootstrapObject>,
    /// Slots of the requests that run off the worker threads.
    pub(crate) large_requests: LargeRequests,
    /// The last binding to each node.
    pub(crate) recent_bindings: RecentBindings,
    started: watch::Sender<bool>,
    /// Cancelled once [`Registry::run`] has ended: the caches are not updated any more.
    pub(crate) ended: CancellationToken,
}

// === impl Registry ===

impl Registry {
    /// A registry that serves the objects of these caches.
    pub fn new(config: Config) -> Arc<Registry> {
        // Not below the version of the backend that has the pods.
        let newest = config.caches.backends().iter().map(|backend| backend.newest());
        let newest = newest.max().unwrap_or_default();
        Arc::new(Self {
            recent_bindings: RecentBindings::after(newest),
            caches: config.caches,
            admit: config.admit,
            virtual_resources: config.virtual_resources,
            conversions: Conversions::new(config.webhooks, config.clock.clone()),
            clock: config.clock,
            event_ttl: config.event_ttl,
            allow_privileged: config.allow_privileged,
            counters: Arc::default(),
            bootstrap: config.bootstrap,
            large_requests: LargeRequests::default(),
            started: watch::Sender::new(false),
            ended: CancellationToken::new(),
        })
    }

    /// Creates the bootstrap objects that are missing; then keeps the caches up to date and maintains the stores, until
    /// stopped.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), Error> {
        let _ended = self.ended.clone().drop_guard();
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.run_tasks() => ended,
        }
    }

    /// Resolves once [`Registry::run`] has created the bootstrap objects and the caches hold them.
    pub async fn started(&self) {
        let mut started = self.started.subscribe();
        let started = started.wait_for(|started| *started).await;
        started.expect("the sender lives as long as the registry");
    }

    /// Whether [`Registry::started`] would resolve at once.
    pub fn is_started(&self) -> bool {
        *self.started.borrow()
    }

    /// Creates these objects or reconciles them, as if they were bootstrap objects. What other servers have written is
    /// seen first.
    pub async fn reconcile(&self, objects: &[BootstrapObject]) -> Result<(), Status> {
        for backend in self.caches.backends().iter() {
            let is_of = |desired: &BootstrapObject| {
                let served = self.find_version(&desired.resource);
                served.is_some_and(|served| served.resource.backend.is(backend))
            };
            if objects.iter().any(is_of) {
                backend.store.confirm().await.map_err(error::from_store)?;
            }
        }
        for desired in objects {
            bootstrap::recheck_object(self, desired).await?;
        }
        Ok(())
    }

    async fn run_tasks(&self) -> Result<(), Error> {
        let backends = || self.caches.backends().iter();
        let feeds = backends().map(|backend| Ok(Feed::new(self, backend)?.run()));
        let feeds = feeds.collect::<Result<Vec<_>, Error>>()?;
        let start = async {
            bootstrap::run(self).await?;
            join_all(backends().map(|backend| backend.caught_up())).await;
            self.started.send_replace(true);
            try_join_all(backends().map(|backend| maintenance::run(self, backend))).await
        };
        let rechecks = async {
            self.started().await;
            bootstrap::recheck(self).await
        };
        tokio::select! {
            ended = try_join_all(feeds) => ended.map(drop),
            ended = start => ended.map(drop),
            ended = crd::run(self) => ended,
            never = rechecks => match never {},
        }
    }

    /// The kinds that are served now.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.caches.kinds()
    }

    /// Notifies each time the served kinds have changed.
    pub fn kinds_changed(&self) -> watch::Receiver<u64> {
        self.caches.kinds_changed()
    }

    /// The default store.
    pub fn store(&self) -> &Store {
        self.caches.store()
    }

    /// All stores, the default one first.
    pub fn stores(&self) -> impl Iterator<Item = &Store> {
        self.caches.stores()
    }

    /// The backend of all resources without one of their own.
    pub(crate) fn default_backend(&self) -> &Arc<Backend> {
        self.caches.backends().default_backend()
    }

    pub fn metrics(&self) -> Metrics {
        self.counters.read()
    }

    /// The kind that a URL names, and the resource that holds its objects.
    pub(crate) fn find_version(&self, gvr: &Gvr) -> Option<ServedVersion> {
        self.caches.served().find(gvr).cloned()
    }

    pub(crate) fn find_resource(&self, name: &GroupResource) -> Option<Arc<Resource>> {
        self.caches.served().resource(name).cloned()
    }

    /// The kind in every version that is served.
    pub(crate) fn versions_of(&self, info: &KindInfo) -> Vec<Arc<dyn Kind>> {
        let served = self.caches.served();
        let versions = served
            .kinds
            .iter()
            .filter(|kind| kind.info().storage == info.storage);
        versions.cloned().collect()
    }

    /// An object as it is in the store now. The cached one is used where it has the same version.
    pub(crate) fn find(&self, resource: &Resource, key: &Key) -> Result<Option<Arc<Stored>>, Status> {
        let storage_key = key::storage_key(&resource.prefix, key);
        let store = &resource.backend.store;
        let find = || store.snapshot().get(&storage_key);
        let found = match find() {
            // What cannot be decrypted is not absent: its dependents must not be deleted, for example.
            None if store.is_replica() => {
                store.check_decodable(&storage_key).map_err(error::from_store)?;
                // It may be readable since the first look.
                find()
            }
            found => found,
        };
        let Some(record) = found else {
            return Ok(None);
        };
        let object = resource.find_or_decode(key, &record);
        object.map(Some).map_err(error::undecodable)
    }

    /// Executes the verb of a request. `is_large` is whether it has a slot of the large requests.
    async fn execute(&self, request: Request, is_large: bool) -> Result<Response, Status> {
        let verb = request.verb.api_verb();
        if self.store().is_replica() && confirmed_read::needs_newest(&request.verb) {
            Box::pin(confirmed_read::wait_for(self, &request)).await?;
        }
        let result = match self.find_version(&request.target.resource) {
            Some(served) => {
                let mut context = RequestContext::new(self, served, request.user, verb, request.target);
                context.is_large = is_large;
                let result = match verbs::dispatch(&context, request.verb) {
                    Ok(execution) => execution.await,
                    Err(status) => Err(status),
                };
                let result = match (result, context.kind.webhook_conversion()) {
                    (Ok(response), Some(_)) => Box::pin(conversion::response(&context, response)).await,
                    (result, _) => result.and_then(|response| convert::response(&context, response)),
                };
                match result {
                    Ok(response) => Ok(Response {
                        warnings: context.take_warnings(),
                        audit_annotations: context.take_audit_annotations(),
                        ..response
                    }),
                    Err(status) => Err(Status {
                        warnings: context.take_body_warnings(),
                        audit_annotations: context.take_audit_annotations(),
                        ..status
                    }),
                }
            }
            None => Err(Status::no_such_resource()),
        };
        self.counters.count(verb, result.is_err());
        result
    }
}

impl Serve for Registry {
    fn call(&self, request: Request) -> ServeFuture<'_> {
        match large_requests::has_large_body(&request) {
            true => Box::pin(self.large_requests.run(Box::pin(self.execute(request, true)))),
            false => Box::pin(self.execute(request, false)),
        }
    }
}

impl Caches for Registry {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        self.caches.cache(resource)
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("kinds", &self.kinds().len())
            .field("backends", &self.caches.backends())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("caches", &self.caches)
            .field("event_ttl", &self.event_ttl)
            .field("allow_privileged", &self.allow_privileged)
            .finish_non_exhaustive()
    }
}
