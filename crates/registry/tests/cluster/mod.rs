//! A registry on the memory store with a manual clock, and short helpers for requests.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file uses its own part of this"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use setpoint_api::options::{DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions};
use setpoint_api::{
    Clock, Event, Gvr, Key, List, Payload, Request, Response, Serve, Status, Stored, Target, User, Verb,
    Watch, call::Body,
};
use setpoint_kinds::bootstrap::{self, ServerInfo};
use setpoint_registry::{Config, Registry, WatchCaches};
use setpoint_registry_api::{Admit, AdmitAll, WebhookClient};
use setpoint_store::Store;
use setpoint_strategy::BootstrapObject;

pub struct Cluster {
    pub registry: Arc<Registry>,
    pub clock: Arc<ManualClock>,
    user: Arc<User>,
    /// Stops the registry when the test ends.
    _running: JoinSet<()>,
}

fn memory_store() -> (Store, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let times = clock.clone();
    let store = Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())));
    (store, clock)
}

fn config(store: Store, clock: &Arc<ManualClock>, admit: Arc<dyn Admit>) -> Config {
    let kinds = setpoint_kinds::builtin();
    Config {
        bootstrap: bootstrap::objects(&kinds, None),
        caches: WatchCaches::open(store, Arc::new(kinds)),
        admit,
        virtual_resources: Arc::new(setpoint_registry_api::NoVirtualResources),
        webhooks: Arc::new(setpoint_registry_api::NoWebhooks),
        clock: clock.clone(),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    }
}

impl Cluster {
    pub async fn start() -> Self {
        let (store, clock) = memory_store();
        Self::on(store, clock).await
    }

    pub async fn on(store: Store, clock: Arc<ManualClock>) -> Self {
        Self::on_at(store, clock, None).await
    }

    /// A server with this admission.
    pub async fn with_admission(admit: Arc<dyn Admit>) -> Self {
        let (store, clock) = memory_store();
        Self::open(config(store, &clock, admit), clock).await
    }

    /// A server that calls webhooks with this client.
    pub async fn with_webhooks(webhooks: Arc<dyn WebhookClient>) -> Self {
        let (store, clock) = memory_store();
        let config = Config {
            webhooks,
            ..config(store, &clock, Arc::new(AdmitAll))
        };
        Self::open(config, clock).await
    }

    /// A server that allows privileged containers.
    pub async fn allowing_privileged() -> Self {
        let (store, clock) = memory_store();
        let config = Config {
            allow_privileged: true,
            ..config(store, &clock, Arc::new(AdmitAll))
        };
        Self::open(config, clock).await
    }

    /// A server that publishes its address.
    pub async fn on_at(store: Store, clock: Arc<ManualClock>, own: Option<ServerInfo>) -> Self {
        let config = config(store, &clock, Arc::new(AdmitAll));
        let config = Config {
            bootstrap: bootstrap::objects(&setpoint_kinds::builtin(), own.as_ref()),
            ..config
        };
        Self::open(config, clock).await
    }

    /// A server of these caches with these bootstrap objects.
    pub async fn of_caches(caches: Arc<WatchCaches>, bootstrap: Vec<BootstrapObject>) -> Self {
        let (store, clock) = memory_store();
        let config = Config {
            caches,
            bootstrap,
            ..config(store, &clock, Arc::new(AdmitAll))
        };
        Self::open(config, clock).await
    }

    /// A server of these caches with this admission.
    pub async fn admitting(caches: Arc<WatchCaches>, admit: Arc<dyn Admit>) -> Self {
        let (store, clock) = memory_store();
        let config = Config {
            caches,
            ..config(store, &clock, admit)
        };
        Self::open(config, clock).await
    }

    async fn open(config: Config, clock: Arc<ManualClock>) -> Self {
        let registry = Registry::new(config);
        let mut running = JoinSet::new();
        let runner = registry.clone();
        running.spawn(async move { runner.run(CancellationToken::new()).await.unwrap() });
        registry.started().await;
        Self {
            registry,
            clock,
            user: Arc::new(User::component("tester")),
            _running: running,
        }
    }

    pub async fn call(&self, target: Target, verb: Verb) -> Result<Response, Status> {
        let user = self.user.clone();
        self.registry.call(Request { user, target, verb }).await
    }

    pub async fn create(&self, object: &str) -> Result<Arc<Stored>, Status> {
        self.create_with(object, WriteOptions::default()).await
    }

    pub async fn create_with(&self, object: &str, options: WriteOptions) -> Result<Arc<Stored>, Status> {
        let value = parse(object);
        let target = Target::in_namespace(gvr(&value), namespace(&value));
        let verb = Verb::Create(payload(&value), options);
        Ok(self.call(target, verb).await?.into_object().unwrap())
    }

    pub async fn get(&self, resource: &str, key: &str) -> Result<Arc<Stored>, Status> {
        let verb = Verb::Get(GetOptions::default());
        Ok(self
            .call(object(resource, key), verb)
            .await?
            .into_object()
            .unwrap())
    }

    /// Replaces an object, or a subresource such as `status`.
    pub async fn update(&self, value: &Value, sub: &str) -> Result<Arc<Stored>, Status> {
        self.update_with(value, sub, WriteOptions::default()).await
    }

    pub async fn update_with(
        &self,
        value: &Value,
        sub: &str,
        options: WriteOptions,
    ) -> Result<Arc<Stored>, Status> {
        let name = value["metadata"]["name"].as_str().unwrap();
        let mut target = Target::object(gvr(value), &Key::new(namespace(value), name));
        if !sub.is_empty() {
            target = target.subresource(sub);
        }
        let verb = Verb::Update(payload(value), options);
        Ok(self.call(target, verb).await?.into_object().unwrap())
    }

    pub async fn delete(&self, resource: &str, key: &str, options: DeleteOptions) -> Result<Body, Status> {
        let response = self.call(object(resource, key), Verb::Delete(options)).await;
        Ok(response?.body)
    }

    pub async fn list(&self, resource: &str, options: ListOptions) -> Result<List, Status> {
        let target = Target::all(resource_of(resource));
        match self.call(target, Verb::List(options)).await?.body {
            Body::List(list) => Ok(list),
            other => panic!("{other:?} is no list"),
        }
    }

    pub async fn watch(&self, resource: &str, options: WatchOptions) -> Result<Watch, Status> {
        let target = Target::all(resource_of(resource));
        match self.call(target, Verb::Watch(options)).await?.body {
            Body::Watch(watch) => Ok(watch),
            other => panic!("{other:?} is no watch"),
        }
    }
}

/// A clock that only a test advances.
#[derive(Debug)]
pub struct ManualClock {
    now: tokio::sync::watch::Sender<Timestamp>,
}

impl ManualClock {
    pub fn advance(&self, duration: Duration) {
        self.now.send_modify(|now| *now += duration);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        let start = "2026-01-02T03:04:05.678Z".parse().unwrap();
        Self {
            now: tokio::sync::watch::Sender::new(start),
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        let until = self.now().saturating_add(duration).unwrap_or(Timestamp::MAX);
        let mut now = self.now.subscribe();
        Box::pin(async move {
            // Without the clock no time passes any more.
            if now.wait_for(|now| *now >= until).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// The next event as text: `ADDED default/a`, `BOOKMARK`, `ERROR 410`.
pub async fn next(watch: &mut Watch) -> String {
    match watch.next().await {
        None => "end".to_owned(),
        Some(Event::Added(object)) => format!("ADDED {}", object.key()),
        Some(Event::Modified(object)) => format!("MODIFIED {}", object.key()),
        Some(Event::Deleted(object)) => format!("DELETED {}", object.key()),
        Some(Event::Bookmark(mark)) if mark.initial_events_end => "BOOKMARK end".to_owned(),
        Some(Event::Bookmark(_)) => "BOOKMARK".to_owned(),
        Some(Event::Error(status)) => format!("ERROR {}", status.code),
    }
}

/// `pods` and `nodes` are of the core group; others name theirs, as `replicasets.apps`.
pub fn resource_of(resource: &str) -> Gvr {
    let (name, group) = resource.split_once('.').unwrap_or((resource, ""));
    Gvr::new(group, "v1", name)
}

pub fn object(resource: &str, key: &str) -> Target {
    Target::object(resource_of(resource), &key.parse().unwrap())
}

/// The object as a value, to look into or to change.
pub fn value(object: &Stored) -> Value {
    serde_json::from_slice(object.json()).unwrap()
}

pub fn parse(object: &str) -> Value {
    serde_json::from_str(object).unwrap()
}

pub fn payload(value: &Value) -> Payload {
    Payload::json(serde_json::to_vec(value).unwrap())
}

pub fn config_map(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}},"data":{{"a":"1"}}}}"#
    )
}

pub fn pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","namespace":"default"}},"spec":{{"containers":[{{"name":"c","image":"app:1"}}]}}}}"#
    )
}

pub fn replica_set(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{{"name":"{name}","namespace":"default"}},"spec":{{"replicas":2,"selector":{{"matchLabels":{{"app":"x"}}}},"template":{{"metadata":{{"labels":{{"app":"x"}}}},"spec":{{"containers":[{{"name":"c","image":"app:1"}}]}}}}}}}}"#
    )
}

fn gvr(value: &Value) -> Gvr {
    let api_version = value["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = format!("{}s", value["kind"].as_str().unwrap().to_lowercase());
    Gvr::new(group, version, &resource)
}

fn namespace(value: &Value) -> &str {
    value["metadata"]["namespace"].as_str().unwrap_or_default()
}
