//! NamespaceLifecycle, through a registry with the default chain.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use setpoint_admission::Chain;
use setpoint_api::options::{DeleteOptions, WriteOptions};
use setpoint_api::{
    Clock, Gvr, Key, Payload, Request, Response, Serve, Status, SystemClock, Target, User, Verb,
};
use setpoint_registry::{Config, Registry, WatchCaches};
use setpoint_store::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

struct Cluster {
    registry: Arc<Registry>,
    _running: JoinSet<()>,
}

impl Cluster {
    async fn start() -> Self {
        let clock = Arc::new(SystemClock::new());
        let times = clock.clone();
        let kinds = setpoint_kinds::builtin();
        let store = Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())));
        let registry = Registry::new(Config {
            bootstrap: setpoint_kinds::bootstrap::objects(&kinds, None),
            caches: WatchCaches::open(store, Arc::new(kinds)),
            admit: Arc::new(Chain::default()),
            virtual_resources: Arc::new(setpoint_registry_api::NoVirtualResources),
            webhooks: Arc::new(setpoint_registry_api::NoWebhooks),
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

    async fn call(&self, target: Target, verb: Verb) -> Result<Response, Status> {
        let user = Arc::new(User::component("tester"));
        self.registry.call(Request { user, target, verb }).await
    }

    async fn create_namespace(&self, name: &str) {
        let document = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let verb = Verb::Create(Payload::json(document), WriteOptions::default());
        self.call(Target::all(namespaces()), verb).await.unwrap();
    }

    async fn create_config_map(&self, namespace: &str) -> Result<Response, Status> {
        let target = Target::in_namespace(Gvr::new("", "v1", "configmaps"), namespace);
        let document = r#"{"metadata":{"name":"a"}}"#;
        let verb = Verb::Create(Payload::json(document), WriteOptions::default());
        self.call(target, verb).await
    }

    async fn delete_namespace(&self, name: &str) -> Result<Response, Status> {
        let target = Target::object(namespaces(), &Key::new("", name));
        self.call(target, Verb::Delete(DeleteOptions::default())).await
    }
}

fn namespaces() -> Gvr {
    Gvr::new("", "v1", "namespaces")
}

#[tokio::test]
async fn nothing_is_created_in_a_missing_namespace() {
    let cluster = Cluster::start().await;
    let status = cluster.create_config_map("nowhere").await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "namespaces \"nowhere\" not found");
}

#[tokio::test]
async fn a_namespace_can_be_used_as_soon_as_it_is_created() {
    let cluster = Cluster::start().await;
    cluster.create_namespace("fresh").await;
    assert!(cluster.create_config_map("fresh").await.unwrap().created);
}

#[tokio::test]
async fn nothing_is_created_in_a_terminating_namespace() {
    let cluster = Cluster::start().await;
    cluster.create_namespace("going").await;
    cluster.delete_namespace("going").await.unwrap();
    let status = cluster.create_config_map("going").await.unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "configmaps \"a\" is forbidden: unable to create new content in namespace going because it is being terminated"
    );
    let cause = &status.details.unwrap().causes[0];
    assert_eq!(cause.reason, "NamespaceTerminating");
    assert_eq!(cause.field, "metadata.namespace");
}

#[tokio::test]
async fn the_prefix_of_a_generated_name_is_in_the_error() {
    let cluster = Cluster::start().await;
    cluster.create_namespace("going").await;
    cluster.delete_namespace("going").await.unwrap();
    let target = Target::in_namespace(Gvr::new("", "v1", "configmaps"), "going");
    let body = Payload::json(r#"{"metadata":{"generateName":"gen-"}}"#);
    let verb = Verb::Create(body, WriteOptions::default());
    let status = cluster.call(target, verb).await.unwrap_err();
    assert!(
        status.message.starts_with("configmaps \"gen-\" is forbidden: "),
        "{}",
        status.message
    );
    assert_eq!(status.details.unwrap().name, "gen-");
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let cluster = Cluster::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        let status = cluster.delete_namespace(name).await.unwrap_err();
        assert_eq!(
            status.message,
            format!("namespaces {name:?} is forbidden: this namespace may not be deleted")
        );
    }
    assert!(cluster.delete_namespace("kube-node-lease").await.is_ok());
}
