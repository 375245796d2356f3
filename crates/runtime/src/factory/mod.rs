//! [`Factory`]: one watch for each resource and selection, however many want to know.
//!
//! Whoever asks for a resource gets the same [`SharedInformer`], and with it the same cache and the same objects; the
//! server sees one watch. Handlers come and go at any time, each with its own filter, resync and knowledge of what it
//! has been told. The factory's `run` does all the work, so stopping it stops everything.

mod figures;
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
use crate::reflector::{Reflector, Scope};

pub use shared::{Registration, SharedInformer, Stopped, Wishes};

/// Makes informers of one server and runs them. Cloning shares it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let cluster = setpoint_testkit::Cluster::start().await;
/// # let (client, clock) = (cluster.client("me"), std::sync::Arc::new(cluster.clock.clone()));
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use setpoint_runtime::{Factory, Notice, Wishes};
/// use tokio_util::sync::CancellationToken;
///
/// # client.namespaced("default").create(&setpoint_testkit::config_map("a", "k", "v")).await?;
/// let factory = Factory::new(client, clock);
/// let maps = factory.of::<ConfigMap>();
/// let (told, mut names) = tokio::sync::mpsc::channel(8);
/// let _place = maps.add_handler(Wishes::default(), move |notice| {
///     let key = match notice {
///         Notice::Present(map) => map.key(),
///         Notice::Changed(change) => change.key(),
///         Notice::Gap => return,
///     };
///     told.try_send(key.name().to_owned()).ok();
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
pub struct Factory {
    client: Client,
    clock: Arc<dyn Clock>,
    limits: Limits,
    informers: Arc<Mutex<BTreeMap<Id, Arc<SharedInformer>>>>,
    /// In which version to mirror what somebody asks for without one.
    known: Arc<BTreeMap<GroupResource, Gvr>>,
    jobs: Arc<Jobs>,
}

/// What makes two informers one: the resource, and the selection as it stands in a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    resource: Gvr,
    namespace: String,
    labels: String,
    fields: String,
}

/// What is to be started as soon as the factory runs.
#[derive(Default)]
struct Jobs {
    state: Mutex<JobState>,
    /// Told when there is something to start.
    some: Notify,
}

#[derive(Default)]
struct JobState {
    waiting: Vec<Job>,
    stopped: bool,
}

type Job = Box<dyn FnOnce(CancellationToken) -> Running + Send>;
type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How much of the past a mirror keeps for its handlers. Nobody resumes from it but they.
const WINDOW: Limits = Limits {
    changes: 20_000,
    bytes: 32 << 20,
};

// === impl Factory ===

impl Factory {
    /// A factory without informers, which asks this client.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            clock,
            limits: WINDOW,
            informers: Arc::default(),
            known: Arc::default(),
            jobs: Arc::default(),
        }
    }

    /// The same factory, whose handlers may fall behind by so much before they have to start over.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same factory, which also makes informers for those who name a resource without its version: the first here
    /// counts, as discovery has them in the order in which the server prefers them.
    #[must_use]
    pub fn knowing(self, resources: impl IntoIterator<Item = Gvr>) -> Self {
        let mut known = BTreeMap::new();
        for resource in resources {
            known.entry(resource.group_resource()).or_insert(resource);
        }
        let known = Arc::new(known);
        Self { known, ..self }
    }

    /// The informer of all objects of a type.
    pub fn of<T: Object>(&self) -> Arc<SharedInformer> {
        self.informer(T::resource(), Scope::default())
    }

    /// The informer of this selection of a resource; the same one for everyone who asks for the same.
    pub fn informer(&self, resource: Gvr, scope: Scope) -> Arc<SharedInformer> {
        self.find_or_make(resource, scope, None)
    }

    /// The same, with objects changed before they are kept: stripped of what nobody reads, say. Who asks first decides
    /// on the transformation.
    pub fn transformed(&self, resource: Gvr, scope: Scope, transform: Transform) -> Arc<SharedInformer> {
        self.find_or_make(resource, scope, Some(transform))
    }

    /// Reads the cached objects of a type.
    pub fn lister<T: Object>(&self) -> Lister<T> {
        Lister::new(self.of::<T>().cache().clone())
    }

    /// Resolves once everything that has been asked for so far is filled.
    pub async fn synced(&self) {
        let informers: Vec<_> = self.informers.lock().values().cloned().collect();
        for informer in informers {
            informer.cache().synced().await;
        }
    }

    /// Runs all informers and handlers, those to come included, until stopped; ends when all of them have.
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
                Some(ended) = running.join_next() => ended.map_err(broken)?,
            }
        }
        self.jobs.stop();
        while let Some(ended) = running.join_next().await {
            ended.map_err(broken)?;
        }
        Ok(())
    }

    fn find_or_make(&self, resource: Gvr, scope: Scope, transform: Option<Transform>) -> Arc<SharedInformer> {
        let id = Id {
            resource: resource.clone(),
            namespace: scope.namespace.clone(),
            labels: scope.labels.to_string(),
            fields: scope.fields.to_string(),
        };
        let mut informers = self.informers.lock();
        if let Some(informer) = informers.get(&id) {
            return informer.clone();
        }
        let cache = Cache::new(resource.group_resource()).with_limits(self.limits);
        let cache = Arc::new(cache.forgetful());
        let mut reflector = Reflector::new(&self.client, resource, scope, cache.clone(), self.clock.clone());
        if let Some(transform) = transform {
            reflector = reflector.transforming(transform);
        }
        self.jobs.push(|stop| reflector.run(stop));
        let informer = SharedInformer::new(cache, self.clock.clone(), self.jobs.clone());
        let informer = Arc::new(informer);
        informers.insert(id, informer.clone());
        informer
    }
}

/// A resource is served in whatever version it was first asked for, whole; or else in the one that is known.
impl Caches for Factory {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        let asked_for = {
            let informers = self.informers.lock();
            let mut whole = informers.iter().filter(|(id, _)| id.is_whole());
            let found = whole.find(|(id, _)| id.resource.group_resource() == *resource);
            found.map(|(_, informer)| informer.cache().clone())
        };
        asked_for.or_else(|| self.cache_of(self.known.get(resource)?))
    }

    fn cache_of(&self, resource: &Gvr) -> Option<Arc<Cache>> {
        Some(self.informer(resource.clone(), Scope::default()).cache().clone())
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.informers.lock().keys()).finish()
    }
}

// === impl Id ===

impl Id {
    fn is_whole(&self) -> bool {
        self.namespace.is_empty() && self.labels.is_empty() && self.fields.is_empty()
    }
}

// === impl Jobs ===

impl Jobs {
    /// Whether the job will be started; it will not if the factory has stopped.
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

fn broken(error: tokio::task::JoinError) -> Error {
    Error::Panicked(format!("an informer: {error}"))
}
