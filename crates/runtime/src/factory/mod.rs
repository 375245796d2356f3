//! [`SharedInformerFactory`]: one informer for each resource and selector, shared by all its users.
//!
//! All callers that request a resource get the same [`SharedInformer`], and with it the same cache and the same objects;
//! the server sees one watch. Handlers can be added and removed at any time, each with its own filter, resync and delivery
//! progress. The factory's `run` runs all informers and handlers, so stopping it stops everything.

mod metrics;
mod shared;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::{Clock, GroupResource, Gvr};
use setpoint_cache::{Cache, Caches, Limits};
use setpoint_client::{Client, Object};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::delta::Transform;
use crate::lister::Lister;
use crate::reconcile::Error;
use crate::reflector::{Reflector, ReflectorOptions};

pub use shared::{HandlerOptions, InformerStopped, Registration, SharedInformer};

/// Creates the informers of one API server and runs them. Cloning shares it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_runtime::{Event, HandlerOptions, SharedInformerFactory};
/// use tokio_util::sync::CancellationToken;
///
/// # client.namespaced("default").create(&setpoint_testkit::config_map("a", "k", "v")).await?;
/// let factory = SharedInformerFactory::new(client, clock);
/// let maps = factory.informer_for::<ConfigMap>();
/// let (sender, mut names) = tokio::sync::mpsc::channel(8);
/// let _registration = maps.add_handler(HandlerOptions::default(), move |event| {
///     let key = match event {
///         Event::Present(map) => map.key(),
///         Event::Changed(change) => change.key(),
///         Event::Gap => return,
///     };
///     sender.try_send(key.name().to_owned()).ok();
/// })?;
/// let stop = CancellationToken::new();
/// tokio::select! {
///     ended = factory.run(stop.clone()) => ended?,
///     () = async { while names.recv().await.as_deref() != Some("a") {} } => {}
/// }
/// assert_eq!(factory.lister::<ConfigMap>().in_namespace("default").len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedInformerFactory {
    client: Client,
    clock: Arc<dyn Clock>,
    limits: Limits,
    informers: Arc<Mutex<BTreeMap<InformerKey, Arc<SharedInformer>>>>,
    /// The version to watch for resources that are requested without a version.
    preferred_versions: Arc<BTreeMap<GroupResource, Gvr>>,
    /// What of a resource is cached where the caller names no selectors.
    scopes: Arc<BTreeMap<Gvr, ReflectorOptions>>,
    jobs: Arc<Jobs>,
}

/// Identifies an informer: the resource, and the selectors as they are written in a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct InformerKey {
    resource: Gvr,
    namespace: String,
    labels: String,
    fields: String,
}

/// Reflectors and handlers to be started as soon as the factory runs.
#[derive(Default)]
struct Jobs {
    state: Mutex<JobState>,
    /// Notified when there is something to start.
    some: Notify,
}

#[derive(Default)]
struct JobState {
    waiting: Vec<Job>,
    stopped: bool,
}

type Job = Box<dyn FnOnce(CancellationToken) -> JobFuture + Send>;
type JobFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How much history an informer cache keeps for its handlers, which are its only subscribers.
const WINDOW: Limits = Limits {
    changes: 20_000,
    bytes: 32 << 20,
};

// === impl Factory ===

impl SharedInformerFactory {
    /// A factory without informers, which lists and watches by this client.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            clock,
            limits: WINDOW,
            informers: Arc::default(),
            preferred_versions: Arc::default(),
            scopes: Arc::default(),
            jobs: Arc::default(),
        }
    }

    /// The same factory with other limits: how far a handler may fall behind before it has to start over.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same factory, which also creates informers for resources that are requested without a version. The first version
    /// listed here is used; discovery lists them in the server's order of preference.
    #[must_use]
    pub fn with_resources(self, resources: impl IntoIterator<Item = Gvr>) -> Self {
        let mut known = BTreeMap::new();
        for resource in resources {
            known.entry(resource.group_resource()).or_insert(resource);
        }
        let known = Arc::new(known);
        Self {
            preferred_versions: known,
            ..self
        }
    }

    /// The same factory, which caches only these objects of a resource where the caller names no selectors: for a client
    /// that may not read the others, as a node's agent reads the pods of its node.
    #[must_use]
    pub fn with_scope(self, resource: Gvr, scope: ReflectorOptions) -> Self {
        let mut scopes = (*self.scopes).clone();
        scopes.insert(resource, scope);
        let scopes = Arc::new(scopes);
        Self { scopes, ..self }
    }

    /// The informer of all objects of a type.
    pub fn informer_for<T: Object>(&self) -> Arc<SharedInformer> {
        self.informer(T::resource(), self.scope(&T::resource()))
    }

    /// The informer of a resource with these options. Calls with the same selectors return the same informer.
    pub fn informer(&self, resource: Gvr, scope: ReflectorOptions) -> Arc<SharedInformer> {
        self.find_or_create(resource, scope, None)
    }

    /// The same, with objects transformed before they are cached, for example stripped of unused fields. The first call for
    /// an informer sets its transform.
    pub fn informer_with_transform(
        &self,
        resource: Gvr,
        scope: ReflectorOptions,
        transform: Transform,
    ) -> Arc<SharedInformer> {
        self.find_or_create(resource, scope, Some(transform))
    }

    /// A lister of the cached objects of a type.
    pub fn lister<T: Object>(&self) -> Lister<T> {
        Lister::new(self.informer_for::<T>().cache().clone())
    }

    /// Resolves once all informers created so far have synced.
    pub async fn synced(&self) {
        let informers: Vec<_> = self.informers.lock().values().cloned().collect();
        for informer in informers {
            informer.cache().synced().await;
        }
    }

    /// Runs all informers and handlers, including those added later, until stopped; returns when all of them have ended.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), Error> {
        let stop = stop.child_token();
        let _guard = stop.clone().drop_guard();
        let mut running = JoinSet::new();
        loop {
            let some = self.jobs.some.notified();
            for job in self.jobs.take() {
                running.spawn(job(stop.child_token()));
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = some => {}
                Some(ended) = running.join_next() => ended.map_err(panicked)?,
            }
        }
        self.jobs.stop();
        while let Some(ended) = running.join_next().await {
            ended.map_err(panicked)?;
        }
        Ok(())
    }

    fn scope(&self, resource: &Gvr) -> ReflectorOptions {
        self.scopes.get(resource).cloned().unwrap_or_default()
    }

    fn find_or_create(
        &self,
        resource: Gvr,
        scope: ReflectorOptions,
        transform: Option<Transform>,
    ) -> Arc<SharedInformer> {
        let id = InformerKey::new(&resource, &scope);
        let mut informers = self.informers.lock();
        if let Some(informer) = informers.get(&id) {
            return informer.clone();
        }
        let cache = Cache::new(resource.group_resource()).with_limits(self.limits);
        let cache = Arc::new(cache.trim_delivered());
        let mut reflector = Reflector::new(&self.client, resource, scope, cache.clone(), self.clock.clone());
        if let Some(transform) = transform {
            reflector = reflector.with_transform(transform);
        }
        self.jobs.push(|stop| reflector.run(stop));
        let informer = SharedInformer::new(cache, self.clock.clone(), self.jobs.clone());
        let informer = Arc::new(informer);
        informers.insert(id, informer.clone());
        informer
    }
}

/// A resource without a version is served by the first informer of its scope in any version, else by a new one in
/// the preferred version.
impl Caches for SharedInformerFactory {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        let existing = {
            let informers = self.informers.lock();
            let mut whole = informers
                .iter()
                .filter(|(id, _)| **id == InformerKey::new(&id.resource, &self.scope(&id.resource)));
            let found = whole.find(|(id, _)| id.resource.group_resource() == *resource);
            found.map(|(_, informer)| informer.cache().clone())
        };
        existing.or_else(|| self.cache_of(self.preferred_versions.get(resource)?))
    }

    fn cache_of(&self, resource: &Gvr) -> Option<Arc<Cache>> {
        Some(
            self.informer(resource.clone(), self.scope(resource))
                .cache()
                .clone(),
        )
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.informers.lock().keys()).finish()
    }
}

// === impl Id ===

impl InformerKey {
    fn new(resource: &Gvr, scope: &ReflectorOptions) -> Self {
        Self {
            resource: resource.clone(),
            namespace: scope.namespace.clone(),
            labels: scope.labels.to_string(),
            fields: scope.fields.to_string(),
        }
    }
}

// === impl Jobs ===

impl Jobs {
    /// Adds a job; false if the factory has stopped and will not start it.
    fn push<F>(&self, job: impl FnOnce(CancellationToken) -> F + Send + 'static) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut state = self.state.lock();
        if state.stopped {
            return false;
        }
        state.waiting.push(Box::new(|stop| Box::pin(job(stop))));
        drop(state);
        self.some.notify_one();
        true
    }

    fn take(&self) -> Vec<Job> {
        std::mem::take(&mut self.state.lock().waiting)
    }

    fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.waiting.clear();
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::Panicked(format!("informer: {error}"))
}
