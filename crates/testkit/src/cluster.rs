//! A whole cluster in the test's own process: the real registry on a store in memory, and the parts that the test
//! starts, on a clock that only moves when nothing else does.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let cluster = setpoint_testkit::Cluster::start().await;
//! let maps = cluster.client("me").namespaced::<ConfigMap>("default");
//! maps.create(&setpoint_testkit::config_map("greeting", "text", "hello")).await.unwrap();
//! let revision = cluster.wait_until_quiet().await.unwrap();
//! assert_eq!(revision, cluster.newest());
//! # }
//! ```

use std::sync::Arc;
use std::time::Duration;

use setpoint_admission::Chain;
use setpoint_api::{Clock, Key, ResourceVersion, Serve, Stored, User};
use setpoint_cache::{Cache, Caches};
use setpoint_client::{Client, Object};
use setpoint_kinds::Kinds;
use setpoint_registry::{Config, Registry};
use setpoint_runtime::{Context, Controller, Error, Manager};
use setpoint_store::{Store, Watcher};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::SteppedClock;
use crate::link::Link;
use crate::mirror::Mirror;
use crate::part::{Part, RunningPart};
use crate::quiet::Watched;

/// When nothing was committed for so long, everyone waits for the clock.
pub(crate) const QUIET: Duration = Duration::from_millis(5);
/// A state that has not come about after so many quiet moments never will.
const MAX_QUIET_MOMENTS: usize = 2000;
/// Nor after so many commits.
const MAX_BATCHES: usize = 100_000;

/// A server, and the way to it.
#[derive(Debug)]
pub struct Cluster {
    /// The time of everyone in the cluster.
    pub clock: SteppedClock,
    /// All parts talk to the server over this.
    pub link: Arc<Link>,
    store: Store,
    registry: Arc<Registry>,
    rules: Rules,
    pub(crate) watched: Watched,
    /// Keeps the server running; dropping it ends it.
    server: JoinSet<()>,
}

/// Makes the rules of admission that the server goes by.
type Rules = fn() -> Chain;

impl Cluster {
    /// A server with nothing but what every cluster has. Of the rules of admission it has the least.
    pub async fn start() -> Self {
        Self::start_with(Chain::default).await
    }

    /// A server with all the rules of admission that one has by default: services get addresses, and pods need a service
    /// account, so that somebody must make them.
    pub async fn strict(parts: impl IntoIterator<Item = Part>) -> (Self, Vec<RunningPart>) {
        let cluster = Self::start_with(|| Chain::standard(&Default::default())).await;
        let running = parts.into_iter().map(|part| cluster.run(part)).collect();
        (cluster, running)
    }

    async fn start_with(rules: Rules) -> Self {
        let clock = SteppedClock::default();
        let millis = clock.clone();
        let store = Store::memory(setpoint_store::Config::new(Arc::new(move || millis.millis())));
        Self::serve(store, clock, rules).await
    }

    /// A server and these parts.
    pub async fn with(parts: impl IntoIterator<Item = Part>) -> (Self, Vec<RunningPart>) {
        let cluster = Self::start().await;
        let running = parts.into_iter().map(|part| cluster.run(part)).collect();
        (cluster, running)
    }

    /// The same cluster after its server was killed and started again. Parts must be started anew.
    pub async fn restart(mut self) -> Self {
        self.server.shutdown().await;
        Self::serve(self.store, self.clock, self.rules).await
    }

    async fn serve(store: Store, clock: SteppedClock, rules: Rules) -> Self {
        let config = Config {
            store: store.clone(),
            kinds: Arc::new(Kinds::builtin()),
            admit: Arc::new(rules()),
            answer: Arc::new(setpoint_registry::AnswerNone),
            clock: Arc::new(clock.clone()),
            event_ttl: Duration::from_secs(3600),
        };
        let registry = Registry::open(config).expect("a store in memory can be read");
        let mut server = JoinSet::new();
        let running = registry.clone();
        server.spawn(async move {
            let ended = running.run(CancellationToken::new()).await;
            panic!("the server ended: {ended:?}");
        });
        let cluster = Self {
            clock,
            link: Link::new(registry.clone()),
            store,
            registry,
            rules,
            watched: Watched::default(),
            server,
        };
        let default = Key::new("", "default");
        cluster
            .until("a default namespace", |cluster| {
                let namespaces = cluster.cache::<k8s_openapi::api::core::v1::Namespace>();
                namespaces.find(&default).is_some()
            })
            .await;
        cluster
    }

    /// Starts a part that reads the server's own caches.
    pub fn run(&self, part: Part) -> RunningPart {
        self.run_on(self.registry.clone(), part)
    }

    /// Starts a part that reads these caches.
    pub fn run_on(&self, caches: Arc<dyn Caches>, part: Part) -> RunningPart {
        let manager = self.manager_on(caches, part.component());
        part.start(manager, &self.registry)
    }

    /// The manager of a process of its own: it mirrors the server over the link.
    pub fn manager(&self, name: &str) -> Manager {
        Manager::remote(self.client(name), Arc::new(self.clock.clone()))
    }

    /// Starts parts as one process of its own: it reaches the server by this way alone, and keeps caches of its own of
    /// everything there is.
    pub fn run_apart(&self, serve: Arc<dyn Serve>, parts: impl IntoIterator<Item = Part>) -> RunningPart {
        let client = Client::new(serve, Arc::new(User::component("apart")));
        let mut manager = Manager::remote(client, Arc::new(self.clock.clone()));
        for kind in self.registry.kinds().iter().filter(|kind| kind.about().is_home()) {
            let cache = manager.context().cache_of(&kind.about().gvr);
            cache.expect("a remote manager follows whatever it is asked for");
        }
        for part in parts {
            part.add_to(&mut manager, &self.registry);
        }
        RunningPart::of(manager)
    }

    /// Starts a part that a manager of the test's own making runs: over another way to the server, say.
    pub fn run_by(&self, manager: Manager, part: Part) -> RunningPart {
        part.start(manager, &self.registry)
    }

    /// A manager of this name for the controllers of a test, on the server's own caches and the cluster's clock.
    pub fn local_manager(&self, name: &str) -> Manager {
        self.manager_on(self.registry.clone(), name)
    }

    /// Runs one controller, made with what it is given, until what comes back is dropped.
    pub fn control(
        &self,
        name: &str,
        make: impl FnOnce(&Context) -> Result<Controller, Error>,
    ) -> Result<RunningPart, Error> {
        let mut manager = self.local_manager(name);
        let controller = make(manager.context())?;
        manager.control(controller);
        Ok(RunningPart::of(manager))
    }

    fn manager_on(&self, caches: Arc<dyn Caches>, name: &str) -> Manager {
        let manager = Manager::new(caches, self.client(name), Arc::new(self.clock.clone()));
        self.watched.add(&manager.context().activity);
        manager
    }

    /// A client that may do anything, under this name.
    pub fn client(&self, name: &str) -> Client {
        Client::new(self.link.clone(), Arc::new(User::component(name)))
    }

    /// What a controller of this name is given. Its events are not written.
    pub fn context(&self, name: &str) -> Context {
        self.context_on(self.registry.clone(), name)
    }

    /// The same, which reads these caches.
    pub fn context_on(&self, caches: Arc<dyn Caches>, name: &str) -> Context {
        let (context, _) = Context::new(caches, self.client(name), Arc::new(self.clock.clone()));
        self.watched.add(&context.activity);
        context
    }

    /// Caches that follow the server's from a distance.
    pub fn mirror(&self) -> Arc<Mirror> {
        let kinds = self.registry.kinds();
        Mirror::of(
            kinds
                .iter()
                .filter_map(|kind| self.registry.cache(&kind.about().gvr.group_resource())),
        )
    }

    /// The server itself.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The server's cache of the objects of a type.
    pub fn cache<T: Object>(&self) -> Arc<Cache> {
        let cache = self.registry.cache(&T::resource().group_resource());
        cache.expect("tests ask for what is served")
    }

    /// All objects of a type, by key.
    pub fn list<T: Object>(&self) -> Vec<T> {
        let snapshot = self.cache::<T>().snapshot();
        let decode = |object: &Arc<Stored>| object.decode().expect("what is stored can be read");
        snapshot.iter().map(decode).collect()
    }

    /// The object of that name, in the default namespace if its type has namespaces.
    pub fn find<T: Object>(&self, name: &str) -> Option<T> {
        let snapshot = self.cache::<T>().snapshot();
        let keys = [Key::new("default", name), Key::new("", name)];
        let found = keys.iter().find_map(|key| snapshot.find(key))?;
        Some(found.decode().expect("what is stored can be read"))
    }

    /// Waits until the condition holds. The clock moves on whenever everyone waits for it.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let mut watcher = self.follow();
        let (mut moments, mut batches) = (0, 0);
        while !condition(self) {
            match tokio::time::timeout(QUIET, watcher.next()).await {
                Ok(Ok(batch)) => {
                    batches += 1;
                    self.caught_up(ResourceVersion(batch.revision.get())).await;
                }
                Ok(Err(_)) => watcher = self.follow(),
                Err(_) => {
                    moments += 1;
                    self.clock.step(None);
                }
            }
            let in_time = moments < MAX_QUIET_MOMENTS && batches < MAX_BATCHES;
            assert!(in_time, "there never was {what}: {}", self.shown());
        }
    }

    /// Waits until nothing happens any more at this moment of the clock.
    pub async fn settle(&self) {
        let mut watcher = self.follow();
        let mut moments = 0;
        while moments < 4 {
            match tokio::time::timeout(QUIET, watcher.next()).await {
                Ok(Ok(batch)) => {
                    moments = 0;
                    self.caught_up(ResourceVersion(batch.revision.get())).await;
                }
                Ok(Err(_)) => watcher = self.follow(),
                Err(_) => moments += 1,
            }
        }
    }

    /// Lets so much time pass, with everyone acting when it is their time.
    pub async fn advance(&self, by: Duration) {
        let end = self
            .clock
            .now()
            .saturating_add(by)
            .expect("tests stay in this age");
        while self.clock.step(Some(end)) {
            self.settle().await;
        }
        self.clock.set(end);
    }

    /// The resource versions of all objects of a type: equal at two times means nobody wrote in between.
    pub fn versions<T: Object>(&self) -> Vec<(Key, ResourceVersion)> {
        let snapshot = self.cache::<T>().snapshot();
        let version = |object: &Arc<Stored>| (object.key().clone(), object.resource_version());
        snapshot.iter().map(version).collect()
    }

    /// The revision of the last commit.
    pub fn newest(&self) -> ResourceVersion {
        ResourceVersion(self.store.revision().get())
    }

    /// Waits until the caches have everything up to a revision.
    pub(crate) async fn caught_up(&self, version: ResourceVersion) {
        for kind in self.registry.kinds().iter().filter(|kind| kind.about().is_home()) {
            let cache = self.registry.cache(&kind.about().gvr.group_resource());
            let cache = cache.expect("every kind that is kept has a cache");
            cache.reached(version).await;
        }
    }

    pub(crate) fn follow(&self) -> Watcher {
        let watcher = self.store.watch(b"", self.store.revision());
        watcher.expect("the newest revision can be watched")
    }

    /// What there is, for the message of a failure.
    fn shown(&self) -> String {
        let mut lines = Vec::new();
        for kind in self.registry.kinds().iter().filter(|kind| kind.about().is_home()) {
            let resource = kind.about().gvr.group_resource();
            let cache = self.registry.cache(&resource);
            let cache = cache.expect("every kind that is kept has a cache");
            let snapshot = cache.snapshot();
            let objects = snapshot.iter().take(10);
            lines.extend(
                objects.map(|object| format!("{resource} {}", String::from_utf8_lossy(object.json()))),
            );
        }
        lines.join("\n")
    }
}
