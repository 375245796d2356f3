//! [`Cluster`]: a whole cluster in the test process: the real registry on an in-memory store, and the components that the
//! test starts, on a clock that only advances when nothing else happens.
//!
//! ```
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let cluster = setpoint_testkit::Cluster::start().await;
//! let maps = cluster.client("me").namespaced::<ConfigMap>("default");
//! maps.create(&setpoint_testkit::config_map("greeting", "text", "hello")).await.unwrap();
//! let revision = cluster.wait_until_quiet().await.unwrap();
//! assert_eq!(revision, cluster.revision());
//! # }
//! ```

use std::sync::Arc;
use std::time::Duration;

use setpoint_admission::Chain;
use setpoint_api::{Clock, Key, ResourceVersion, Serve, Stored, User};
use setpoint_cache::{Cache, Caches};
use setpoint_client::{Client, Object};
use setpoint_registry::{Config, Registry, WatchCaches};
use setpoint_runtime::{Context, Controller, Error, Manager};
use setpoint_store::{Store, Watcher};
use setpoint_strategy::BootstrapObject;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::SteppedClock;
use crate::component::{Component, RunningComponent};
use crate::interceptor::Interceptor;
use crate::lagging_caches::LaggingCaches;
use crate::quiet::ActivitySet;

/// When nothing was committed for this long (real time), all components wait for the clock.
pub(crate) const QUIET_INTERVAL: Duration = Duration::from_millis(5);
/// After this many quiet intervals, [`Cluster::until`] gives up.
const MAX_QUIET_INTERVALS: usize = 2000;
/// After this many commits, too.
const MAX_BATCHES: usize = 100_000;

/// An in-process server, with the components started on it.
#[derive(Debug)]
pub struct Cluster {
    /// The clock of the server and of all components.
    pub clock: SteppedClock,
    /// All components reach the server through this.
    pub interceptor: Arc<Interceptor>,
    store: Store,
    caches: Arc<WatchCaches>,
    registry: Arc<Registry>,
    admission: AdmissionFactory,
    pub(crate) activities: ActivitySet,
    /// Keeps the server running; dropping it ends it.
    server: JoinSet<()>,
}

/// Builds the admission chain of the server.
type AdmissionFactory = fn() -> Chain;

impl Cluster {
    /// A server with the bootstrap objects of every cluster, and a minimal admission chain.
    pub async fn start() -> Self {
        Self::start_with_admission(Chain::default).await
    }

    /// A server with the default admission chain, and these components: services get addresses, and pods need a service
    /// account, so that the controller which creates those must be among the components.
    pub async fn with_default_admission(
        components: impl IntoIterator<Item = Component>,
    ) -> (Self, Vec<RunningComponent>) {
        let cluster = Self::start_with_admission(|| Chain::standard(&Default::default())).await;
        let running = components
            .into_iter()
            .map(|component| cluster.run(component))
            .collect();
        (cluster, running)
    }

    async fn start_with_admission(admission: AdmissionFactory) -> Self {
        let clock = SteppedClock::default();
        let millis = clock.clone();
        let store = Store::memory(setpoint_store::Config::new(Arc::new(move || millis.millis())));
        Self::serve(store, clock, admission).await
    }

    /// A server and these components.
    pub async fn with(components: impl IntoIterator<Item = Component>) -> (Self, Vec<RunningComponent>) {
        let cluster = Self::start().await;
        let running = components
            .into_iter()
            .map(|component| cluster.run(component))
            .collect();
        (cluster, running)
    }

    /// The same cluster after its server was killed and started again. Components must be started again by the test.
    pub async fn restart(mut self) -> Self {
        self.server.shutdown().await;
        Self::serve(self.store, self.clock, self.admission).await
    }

    /// A cluster with the objects that this one has now, which then diverges from it: prepare a cluster once, and fork it
    /// for each test. No component runs in it; the test starts those that it needs. Both have the same clock.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let prepared = setpoint_testkit::Cluster::start().await;
    /// let fork = prepared.fork().await;
    /// let maps = fork.client("me").namespaced::<ConfigMap>("default");
    /// maps.create(&setpoint_testkit::config_map("greeting", "text", "hello")).await.unwrap();
    /// assert!(prepared.find::<ConfigMap>("greeting").is_none());
    /// # }
    /// ```
    pub async fn fork(&self) -> Self {
        let bootstrap = setpoint_kinds::bootstrap::rechecked_objects(None);
        Self::serve_caches(self.caches.fork(), bootstrap, self.clock.clone(), self.admission).await
    }

    async fn serve(store: Store, clock: SteppedClock, admission: AdmissionFactory) -> Self {
        let kinds = setpoint_kinds::builtin();
        let bootstrap = setpoint_kinds::bootstrap::objects(&kinds, None);
        let caches = WatchCaches::open(store, Arc::new(kinds));
        Self::serve_caches(caches, bootstrap, clock, admission).await
    }

    async fn serve_caches(
        caches: Arc<WatchCaches>,
        bootstrap: Vec<BootstrapObject>,
        clock: SteppedClock,
        admission: AdmissionFactory,
    ) -> Self {
        let config = Config {
            bootstrap,
            caches: caches.clone(),
            admit: Arc::new(admission()),
            virtual_resources: Arc::new(setpoint_registry_api::NoVirtualResources),
            webhooks: Arc::new(setpoint_registry_api::NoWebhooks),
            clock: Arc::new(clock.clone()),
            event_ttl: Duration::from_secs(3600),
            allow_privileged: false,
        };
        let registry = Registry::new(config);
        let mut server = JoinSet::new();
        let running = registry.clone();
        server.spawn(async move {
            let ended = running.run(CancellationToken::new()).await;
            panic!("the server ended: {ended:?}");
        });
        let cluster = Self {
            clock,
            interceptor: Interceptor::new(registry.clone()),
            store: caches.store().clone(),
            caches,
            registry,
            admission,
            activities: ActivitySet::default(),
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

    /// Starts a component that reads the server's own caches.
    pub fn run(&self, component: Component) -> RunningComponent {
        self.run_with_caches(self.registry.clone(), component)
    }

    /// Starts a component that reads these caches.
    pub fn run_with_caches(&self, caches: Arc<dyn Caches>, component: Component) -> RunningComponent {
        let manager = self.manager_on(caches, component.component());
        component.start(manager, &self.registry)
    }

    /// The manager of a remote process: it has caches of its own, filled through the interceptor.
    pub fn manager(&self, name: &str) -> Manager {
        Manager::remote(self.client(name), Arc::new(self.clock.clone()))
    }

    /// Starts components as one remote process: it reaches the server through `serve` alone, and keeps caches of its own
    /// of every kind.
    pub fn run_remote(
        &self,
        serve: Arc<dyn Serve>,
        components: impl IntoIterator<Item = Component>,
    ) -> RunningComponent {
        let client = Client::new(serve, Arc::new(User::component("apart")));
        let mut manager = Manager::remote(client, Arc::new(self.clock.clone()));
        for kind in self
            .registry
            .kinds()
            .iter()
            .filter(|kind| kind.info().is_storage_version())
        {
            let cache = manager.context().cache_of(&kind.info().gvr);
            cache.expect("a remote manager can follow any resource");
        }
        for component in components {
            component.add_to(&mut manager, &self.registry);
        }
        RunningComponent::of(manager)
    }

    /// Starts a component in a manager that the test has built: with another transport to the server, for example.
    pub fn run_in(&self, manager: Manager, component: Component) -> RunningComponent {
        component.start(manager, &self.registry)
    }

    /// A manager with this user name for the controllers of a test, on the server's own caches and the cluster's clock.
    pub fn local_manager(&self, name: &str) -> Manager {
        self.manager_on(self.registry.clone(), name)
    }

    /// Runs one controller, built by `make`, until the returned handle is dropped.
    pub fn run_controller(
        &self,
        name: &str,
        make: impl FnOnce(&Context) -> Result<Controller, Error>,
    ) -> Result<RunningComponent, Error> {
        let mut manager = self.local_manager(name);
        let controller = make(manager.context())?;
        manager.add_controller(controller);
        Ok(RunningComponent::of(manager))
    }

    fn manager_on(&self, caches: Arc<dyn Caches>, name: &str) -> Manager {
        let manager = Manager::new(caches, self.client(name), Arc::new(self.clock.clone()));
        self.activities.add(&manager.context().activity);
        manager
    }

    /// A client with this user name. Nothing is authorized here: it may do anything.
    pub fn client(&self, name: &str) -> Client {
        Client::new(self.interceptor.clone(), Arc::new(User::component(name)))
    }

    /// The context of a controller with this user name. Its events are not written.
    pub fn context(&self, name: &str) -> Context {
        self.context_on(self.registry.clone(), name)
    }

    /// The same, which reads these caches.
    pub fn context_on(&self, caches: Arc<dyn Caches>, name: &str) -> Context {
        let (context, _) = Context::new(caches, self.client(name), Arc::new(self.clock.clone()));
        self.activities.add(&context.activity);
        context
    }

    /// Copies of the server's caches that a test can pause.
    pub fn lagging_caches(&self) -> Arc<LaggingCaches> {
        let kinds = self.registry.kinds();
        LaggingCaches::of(
            kinds
                .iter()
                .filter_map(|kind| self.registry.cache(&kind.info().gvr.group_resource())),
        )
    }

    /// The server itself.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The server's cache of the objects of a type.
    pub fn cache<T: Object>(&self) -> Arc<Cache> {
        let cache = self.registry.cache(&T::resource().group_resource());
        cache.expect("tests use resources that are served")
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

    /// Waits until the condition holds. The clock advances whenever all components wait for it.
    pub async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let mut watcher = self.watch_store();
        let (mut intervals, mut batches) = (0, 0);
        while !condition(self) {
            match tokio::time::timeout(QUIET_INTERVAL, watcher.next()).await {
                Ok(Ok(batch)) => {
                    batches += 1;
                    self.wait_for_caches(ResourceVersion(batch.revision.get())).await;
                }
                Ok(Err(_)) => watcher = self.watch_store(),
                Err(_) => {
                    intervals += 1;
                    self.clock.step(None);
                }
            }
            let in_time = intervals < MAX_QUIET_INTERVALS && batches < MAX_BATCHES;
            assert!(in_time, "there never was {what}: {}", self.dump());
        }
    }

    /// Waits until nothing more is committed at the current time of the clock.
    pub async fn settle(&self) {
        let mut watcher = self.watch_store();
        let mut intervals = 0;
        while intervals < 4 {
            match tokio::time::timeout(QUIET_INTERVAL, watcher.next()).await {
                Ok(Ok(batch)) => {
                    intervals = 0;
                    self.wait_for_caches(ResourceVersion(batch.revision.get())).await;
                }
                Ok(Err(_)) => watcher = self.watch_store(),
                Err(_) => intervals += 1,
            }
        }
    }

    /// Advances the clock by this much, from one sleeper to the next, and lets the cluster settle after each.
    pub async fn advance(&self, by: Duration) {
        let end = self.clock.now().saturating_add(by).expect("the time is in range");
        while self.clock.step(Some(end)) {
            self.settle().await;
        }
        self.clock.set(end);
    }

    /// The resource versions of all objects of a type: equal at two times means no write in between.
    pub fn versions<T: Object>(&self) -> Vec<(Key, ResourceVersion)> {
        let snapshot = self.cache::<T>().snapshot();
        let version = |object: &Arc<Stored>| (object.key().clone(), object.resource_version());
        snapshot.iter().map(version).collect()
    }

    /// The revision of the last commit.
    pub fn revision(&self) -> ResourceVersion {
        ResourceVersion(self.store.revision().get())
    }

    /// Waits until the caches have everything up to a revision.
    pub(crate) async fn wait_for_caches(&self, version: ResourceVersion) {
        for kind in self
            .registry
            .kinds()
            .iter()
            .filter(|kind| kind.info().is_storage_version())
        {
            let cache = self.registry.cache(&kind.info().gvr.group_resource());
            let cache = cache.expect("every stored kind has a cache");
            cache.reached(version).await;
        }
    }

    pub(crate) fn watch_store(&self) -> Watcher {
        let watcher = self.store.watch(b"", self.store.revision());
        watcher.expect("the newest revision can be watched")
    }

    /// The first objects of every kind, for a failure message.
    fn dump(&self) -> String {
        let mut lines = Vec::new();
        for kind in self
            .registry
            .kinds()
            .iter()
            .filter(|kind| kind.info().is_storage_version())
        {
            let resource = kind.info().gvr.group_resource();
            let cache = self.registry.cache(&resource);
            let cache = cache.expect("every stored kind has a cache");
            let snapshot = cache.snapshot();
            let objects = snapshot.iter().take(10);
            lines.extend(
                objects.map(|object| format!("{resource} {}", String::from_utf8_lossy(object.json()))),
            );
        }
        lines.join("\n")
    }
}
