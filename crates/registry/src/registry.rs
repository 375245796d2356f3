//! The [`Registry`]: what is served, from where, and who keeps it going.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use setpoint_api::{
    Clock, GroupResource, Gvr, Key, Reply, Request, ResourceVersion, Response, Serve, Status, Stored,
};
use setpoint_cache::{Cache, Caches, Progress};
use setpoint_kinds::bootstrap::Own;
use setpoint_kinds::{About, Kind, Kinds};
use setpoint_store::{Revision, Store};

use crate::admit::Admit;
use crate::answer::Answer;
use crate::call::Call;
use crate::definitions::{self, Defined};
use crate::error::Error;
use crate::feed::Feed;
use crate::metrics::{Counters, Metrics};
use crate::table::{Resource, Served, Table};
use crate::{bootstrap, error, key, present, upkeep, verbs};

/// What a registry is made of.
pub struct Config {
    pub store: Store,
    pub kinds: Arc<Kinds>,
    pub admit: Arc<dyn Admit>,
    pub answer: Arc<dyn Answer>,
    pub clock: Arc<dyn Clock>,
    /// How long an event lives after its last write.
    pub event_ttl: Duration,
}

/// The API, served from a store.
///
/// [`Registry::run`] must be running for reads to make progress: it brings what was committed to the caches.
pub struct Registry {
    pub(crate) store: Store,
    pub(crate) admit: Arc<dyn Admit>,
    pub(crate) answer: Arc<dyn Answer>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) event_ttl: Duration,
    /// How far the caches, all of them, have followed the store.
    pub(crate) progress: Arc<Progress>,
    pub(crate) counters: Arc<Counters>,
    /// Where this server is; set before it starts.
    pub(crate) own: OnceLock<Own>,
    started: watch::Sender<bool>,
    table: ArcSwap<Table>,
    /// How often the table was replaced; told after it was.
    redefined: watch::Sender<u64>,
}

// === impl Registry ===

impl Registry {
    /// A registry whose caches hold what the store holds.
    pub fn open(config: Config) -> Result<Arc<Registry>, Error> {
        let progress = Arc::new(Progress::new());
        let registry = Self {
            table: ArcSwap::from_pointee(Table::new(config.kinds, &progress)),
            store: config.store,
            admit: config.admit,
            answer: config.answer,
            clock: config.clock,
            event_ttl: config.event_ttl,
            progress,
            counters: Arc::default(),
            own: OnceLock::new(),
            started: watch::Sender::new(false),
            redefined: watch::Sender::new(0),
        };
        registry.fill();
        Ok(Arc::new(registry))
    }

    /// Says where the server is, so that its own objects can tell. Counts if it is said before [`Registry::run`], once.
    pub fn serves_at(&self, own: Own) {
        self.own.get_or_init(|| own);
    }

    /// Creates what every cluster has, if it is not there; then keeps the caches up to date and the store in order,
    /// until stopped.
    pub async fn run(&self, stop: CancellationToken) -> Result<(), Error> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.keep_going() => ended,
        }
    }

    /// Resolves once [`Registry::run`] has made sure of what every cluster has, and the caches show it.
    pub async fn started(&self) {
        let mut started = self.started.subscribe();
        let started = started.wait_for(|started| *started).await;
        started.expect("the sender lives as long as the registry");
    }

    /// Whether [`Registry::started`] would resolve at once.
    pub fn is_started(&self) -> bool {
        *self.started.borrow()
    }

    async fn keep_going(&self) -> Result<(), Error> {
        let feed = Feed::new(self, key::revision(self.progress.version()))?;
        let start = async {
            bootstrap::run(self).await?;
            let reached = key::version(self.store.revision());
            self.progress.reached(reached).await;
            self.started.send_replace(true);
            upkeep::run(self).await
        };
        tokio::select! {
            ended = feed.run() => ended,
            ended = start => ended,
            ended = definitions::run(self) => ended,
        }
    }

    /// What is served now.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.table.load().kinds.clone()
    }

    /// Tells each time what is served has changed.
    pub fn redefined(&self) -> watch::Receiver<u64> {
        self.redefined.subscribe()
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn metrics(&self) -> Metrics {
        self.counters.read()
    }

    /// The kind a URL names, and where its objects are.
    pub(crate) fn served(&self, gvr: &Gvr) -> Option<Served> {
        self.table.load().find(gvr).cloned()
    }

    pub(crate) fn find_resource(&self, name: &GroupResource) -> Option<Arc<Resource>> {
        self.table.load().resource(name).cloned()
    }

    /// The kind in every version that is served.
    pub(crate) fn versions_of(&self, about: &About) -> Vec<Arc<dyn Kind>> {
        let table = self.table.load();
        let same = table.kinds.iter().filter(|kind| kind.about().home == about.home);
        same.cloned().collect()
    }

    /// An object as fresh as the store has it. The cached one is used where it is the same version.
    pub(crate) fn find(&self, resource: &Resource, key: &Key) -> Result<Option<Arc<Stored>>, Status> {
        let stored_at = key::of(&resource.prefix, key);
        let Some(record) = self.store.snapshot().get(&stored_at) else {
            return Ok(None);
        };
        let object = resource.shared(key, &record);
        object.map(Some).map_err(error::unreadable)
    }

    /// Brings the caches to what the store holds now, and says at which revision.
    pub(crate) fn fill(&self) -> Revision {
        let snapshot = self.store.snapshot();
        let version = key::version(snapshot.revision());
        for resource in self.table.load().resources() {
            let records = snapshot.prefix(resource.prefix.as_bytes());
            let objects = records.filter_map(|record| resource.read(&record)).collect();
            resource.cache.replace(objects, version);
        }
        self.progress.advance(version);
        self.redefine(version);
        snapshot.revision()
    }

    /// Serves what the definitions define now, if that is another than before. New resources are filled as of the
    /// version, at which the caches are.
    pub(crate) fn redefine(&self, version: ResourceVersion) {
        let table = self.table();
        let Some(definitions) = table.resource(&definitions::resource()) else {
            return;
        };
        let defined = Defined::of(&definitions.cache.snapshot(), &table.defined);
        if defined.is_same(&table.defined) {
            return;
        }
        let new = table.redefined(defined, &self.progress);
        let unknown = |resource: &&Arc<Resource>| table.resource(&resource.name).is_none();
        for resource in new.resources().filter(unknown) {
            let snapshot = self.store.snapshot_at(key::revision(version));
            let snapshot = snapshot.unwrap_or_else(|_| self.store.snapshot());
            let records = snapshot.prefix(resource.prefix.as_bytes());
            let objects = records.filter_map(|record| resource.read(&record)).collect();
            resource.cache.replace(objects, version);
        }
        self.table.store(Arc::new(new));
        self.redefined.send_modify(|times| *times += 1);
    }

    async fn answer(&self, request: Request) -> Result<Response, Status> {
        let verb = request.verb.name();
        let answer = match self.served(&request.target.resource) {
            Some(served) => {
                let call = Call::new(self, served, request.user, request.target);
                let answer = verbs::carry_out(&call, request.verb).await;
                let answer = answer.and_then(|response| present::response(&call, response));
                match answer {
                    Ok(response) => Ok(with_said(response, call.said())),
                    Err(status) => Err(Status {
                        warnings: call.said(),
                        ..status
                    }),
                }
            }
            None => Err(Status::no_such_resource()),
        };
        self.counters.count(verb, answer.is_err());
        answer
    }
}

/// The answer with what was said on the way to it, once.
fn with_said(mut response: Response, said: Vec<String>) -> Response {
    let mut new: Vec<String> = said
        .into_iter()
        .filter(|said| !response.warnings.contains(said))
        .collect();
    new.append(&mut response.warnings);
    response.warnings = new;
    response
}

impl Serve for Registry {
    fn call(&self, request: Request) -> Reply<'_> {
        Box::pin(self.answer(request))
    }
}

impl Caches for Registry {
    fn cache(&self, resource: &GroupResource) -> Option<Arc<Cache>> {
        Some(self.table.load().resource(resource)?.cache.clone())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("kinds", &self.table.load().kinds.len())
            .field("reached", &self.progress.version())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("kinds", &self.kinds.len())
            .field("event_ttl", &self.event_ttl)
            .finish_non_exhaustive()
    }
}
