//! A registry in memory with all default plugins, and helpers to write to it.

#![allow(dead_code, unreachable_pub, reason = "each test file uses some of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use setpoint_admission::{Chain, Config};
use setpoint_api::options::{DeleteOptions, GetOptions, ListOptions, WriteOptions};
use setpoint_api::{
    Clock, GroupResource, Gvr, Key, Payload, Request, Response, Serve, Status, SystemClock, Target, User,
    Verb,
};
use setpoint_registry::{Registry, WatchCaches};
use setpoint_registry_api::{ObjectReader, StoredRange, WebhookClient};
use setpoint_store::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub struct Cluster {
    registry: Arc<Registry>,
    _running: JoinSet<()>,
}

impl Cluster {
    pub async fn start(config: &Config) -> Self {
        Self::with_conversion_webhooks(config, Arc::new(setpoint_registry_api::NoWebhooks)).await
    }

    /// A registry that calls conversion webhooks by this client.
    pub async fn with_conversion_webhooks(config: &Config, webhooks: Arc<dyn WebhookClient>) -> Self {
        let clock = Arc::new(SystemClock::new());
        let times = clock.clone();
        let kinds = setpoint_kinds::builtin();
        let store = Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())));
        let registry = Registry::new(setpoint_registry::Config {
            bootstrap: setpoint_kinds::bootstrap::objects(&kinds, None),
            caches: WatchCaches::open(store, Arc::new(kinds)),
            admit: Arc::new(Chain::standard(config)),
            virtual_resources: Arc::new(setpoint_registry_api::NoVirtualResources),
            webhooks,
            clock,
            event_ttl: Duration::from_secs(3600),
            allow_privileged: false,
        });
        let mut running = JoinSet::new();
        let runner = registry.clone();
        running.spawn(async move { runner.run(CancellationToken::new()).await.unwrap() });
        registry.started().await;
        Self {
            registry,
            _running: running,
        }
    }

    pub async fn ready() -> Self {
        Self::start(&Config::default()).await
    }

    pub async fn account(&self, namespace: &str) {
        let path = format!("serviceaccounts {namespace}/default");
        self.create(&path, "{}").await.unwrap();
    }

    pub async fn call(&self, user: User, target: Target, verb: Verb) -> Result<Response, Status> {
        let user = Arc::new(user);
        self.registry.call(Request { user, target, verb }).await
    }

    /// Creates the object of a path: `pods default/web`, or `nodes /n1`.
    pub async fn create(&self, path: &str, body: &str) -> Result<Value, Status> {
        self.create_as(User::component("tester"), path, body).await
    }

    pub async fn create_as(&self, user: User, path: &str, body: &str) -> Result<Value, Status> {
        let (gvr, key) = parse(path);
        let mut body: Value = serde_json::from_str(body).unwrap();
        body["metadata"]["name"] = key.name().into();
        let target = match key.namespace() {
            "" => Target::all(gvr),
            namespace => Target::in_namespace(gvr, namespace),
        };
        let verb = Verb::Create(Payload::json(body.to_string()), WriteOptions::default());
        Ok(object(self.call(user, target, verb).await?))
    }

    /// What a create would store.
    pub async fn create_dry_run(&self, path: &str, body: &str) -> Result<Value, Status> {
        let (gvr, key) = parse(path);
        let mut body: Value = serde_json::from_str(body).unwrap();
        body["metadata"]["name"] = key.name().into();
        let options = WriteOptions {
            dry_run: true,
            ..WriteOptions::default()
        };
        let verb = Verb::Create(Payload::json(body.to_string()), options);
        let target = Target::in_namespace(gvr, key.namespace());
        Ok(object(self.call(User::component("tester"), target, verb).await?))
    }

    /// The numbers that are allocated to objects of a resource.
    pub fn find_range(&self, resource: &GroupResource) -> Option<StoredRange> {
        self.registry.find_range(resource).unwrap()
    }

    pub async fn get(&self, path: &str) -> Result<Value, Status> {
        let (gvr, key) = parse(path);
        let verb = Verb::Get(GetOptions::default());
        let response = self.call(User::component("tester"), Target::object(gvr, &key), verb);
        Ok(object(response.await?))
    }

    /// Waits until a custom resource is served.
    pub async fn wait_until_served(&self, resource: &str) {
        let path = format!("{resource} default/none");
        while self
            .get(&path)
            .await
            .is_err_and(|status| status.details.is_none())
        {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the caches have all that was written.
    pub async fn wait_for_caches(&self) {
        let verb = Verb::List(ListOptions::default());
        let target = Target::all(Gvr::new("", "v1", "namespaces"));
        self.call(User::component("tester"), target, verb).await.unwrap();
    }

    pub async fn update(&self, path: &str, subresource: &str, body: &Value) -> Result<Value, Status> {
        let (gvr, key) = parse(path);
        let mut target = Target::object(gvr, &key);
        if !subresource.is_empty() {
            target = target.subresource(subresource);
        }
        let verb = Verb::Update(Payload::json(body.to_string()), WriteOptions::default());
        Ok(object(self.call(User::component("tester"), target, verb).await?))
    }

    pub async fn delete(&self, path: &str) -> Result<(), Status> {
        let (gvr, key) = parse(path);
        let verb = Verb::Delete(DeleteOptions::default());
        let response = self.call(User::component("tester"), Target::object(gvr, &key), verb);
        response.await.map(drop)
    }
}

fn object(response: Response) -> Value {
    serde_json::from_slice(response.into_object().unwrap().json()).unwrap()
}

fn parse(path: &str) -> (Gvr, Key) {
    let (resource, key) = path.split_once(' ').unwrap();
    let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (namespace, own) = key.split_once('/').unwrap();
    (Gvr::new(group, "v1", name), Key::new(namespace, own))
}
