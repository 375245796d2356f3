//! The library over HTTPS: the same guarantees for a client that has only an address.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deltas;
mod probes;
mod remote;
mod replica_sets;
mod rows;
mod sharing;
mod watch_control;
mod watch_faults;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Key, SystemClock, User};
use setpoint_client::{Http, Object, discovery, metadata};
use setpoint_conformance::wire;
use setpoint_runtime::factory::{HandlerOptions, SharedInformer, SharedInformerFactory};
use setpoint_runtime::informer::Event;
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::reflector::ReflectorOptions;
use setpoint_runtime::{Client, Lister, Manager, create_or_update, for_, owner};
use setpoint_testkit::{Cluster, Component, HttpsServer, RunningComponent, config_map, replica_set};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The timeout of a wait.
const LIMIT: Duration = Duration::from_secs(60);

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, what).await.expect("it comes in time")
}

/// Runs a blocking function on a thread of its own.
async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    in_time(tokio::task::spawn_blocking(what)).await.unwrap()
}

/// The response to a request over a new connection.
async fn send(endpoint: wire::Endpoint, request: wire::Request) -> wire::Response {
    blocking(move || wire::Client::new(endpoint).send(&request).unwrap()).await
}

fn clock() -> Arc<SystemClock> {
    Arc::new(SystemClock::new())
}

/// A factory that runs until it is dropped.
struct RunningFactory {
    factory: SharedInformerFactory,
    _task: JoinSet<Result<(), Error>>,
}

impl RunningFactory {
    fn over(client: Client) -> Self {
        let factory = SharedInformerFactory::new(client, clock());
        let (own, mut task) = (factory.clone(), JoinSet::new());
        task.spawn(async move { own.run(CancellationToken::new()).await });
        Self { factory, _task: task }
    }
}

/// The names of the objects of a handler's events, in order.
fn names(informer: &SharedInformer) -> (mpsc::Receiver<String>, impl Sized) {
    let (sender, names) = mpsc::channel(100);
    let handler = move |event: Event<'_>| {
        let name = match event {
            Event::Present(object) => object.key().name().to_owned(),
            Event::Changed(change) => change.key().name().to_owned(),
            Event::Gap => "a gap".to_owned(),
        };
        sender.try_send(name).expect("the test reads the channel");
    };
    let registration = informer.add_handler(HandlerOptions::default(), handler).unwrap();
    (names, registration)
}

async fn until_delivered(names: &mut mpsc::Receiver<String>, name: &str) {
    in_time(async { while names.recv().await.unwrap() != name {} }).await;
}

/// IN11, IN8: the same informers and listers, whether the type is known or only the metadata is
/// requested. And a custom kind is served like any other.
#[tokio::test]
async fn in11_typed_dynamic_and_metadata_informers_are_one() {
    let cluster = Cluster::start().await;
    let notes = cluster.define_custom_kind("notes", "Note").await;
    let served = cluster.serve_https().await;
    let http = Http::new(&served.connection()).unwrap();
    let whole = RunningFactory::over(Client::new(Arc::new(http.clone()), Arc::new(User::default())));
    let heads = RunningFactory::over(Client::new(
        Arc::new(http.metadata_only()),
        Arc::new(User::default()),
    ));
    let typed = whole.factory.informer_for::<ConfigMap>();
    let dynamic = whole.factory.informer(notes.clone(), ReflectorOptions::default());
    let metadata_only = heads
        .factory
        .informer(ConfigMap::resource(), ReflectorOptions::default());
    let mut handlers: Vec<_> = [&typed, &dynamic, &metadata_only]
        .into_iter()
        .map(|one| names(one))
        .collect();
    let client = cluster.client("test");
    let mut map = config_map("x", "v", "secret");
    map.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    client
        .namespaced::<ConfigMap>("default")
        .create(&map)
        .await
        .unwrap();
    let note =
        json!({"apiVersion": "example.com/v1", "kind": "Note", "metadata": {"name": "x"}, "text": "hello"});
    client
        .dynamic(notes, "default")
        .create(note.to_string())
        .await
        .unwrap();
    for (names, _) in &mut handlers {
        until_delivered(names, "x").await;
    }
    let key = Key::new("default", "x");
    let map = typed.lister::<ConfigMap>().find(&key).unwrap();
    assert_eq!(map.shared().unwrap().data.as_ref().unwrap()["v"], "secret");
    let note: serde_json::Value = dynamic.cache().find(&key).unwrap().decode().unwrap();
    assert_eq!(note["text"], "hello");
    let head = metadata_only.cache().find(&key).unwrap();
    let labels = metadata::metadata(&head)
        .unwrap()
        .metadata
        .labels
        .clone()
        .unwrap();
    assert_eq!(labels["app"], "web");
    assert!(!String::from_utf8_lossy(head.json()).contains("secret"));
    assert!(http.metrics().requests() > 0);
}

/// Keeps a lease for each map called `copy-...`.
struct Copier(Lister<ConfigMap>);

impl Reconcile for Copier {
    async fn reconcile(&self, key: &Key, client: &Client) -> Result<Next, Error> {
        let Some(map) = self
            .0
            .find(key)
            .filter(|map| map.key().name().starts_with("copy-"))
        else {
            return Ok(Next::Done);
        };
        let leases = client.namespaced::<Lease>(key.namespace());
        create_or_update(&leases, key.name(), Lease::default(), |lease| {
            lease.metadata.namespace = Some(key.namespace().to_owned());
            owner::set_controller_reference(&map, lease).expect("no other controller creates such leases");
        })
        .await?;
        Ok(Next::Done)
    }
}

fn remote(served: &HttpsServer) -> Manager {
    Manager::remote(served.client(clock()), clock())
}

/// TO4, WQ5, over HTTPS: an owned object is created again when it is deleted.
#[tokio::test]
async fn to4_an_object_owned_by_a_remote_controller_is_created_again_when_it_is_deleted() {
    let cluster = Cluster::start().await;
    let served = cluster.serve_https().await;
    let mut manager = remote(&served);
    let copier = Copier(manager.context().lister().unwrap());
    manager.add_controller(
        for_::<ConfigMap>()
            .named("copier")
            .owns::<Lease>()
            .reconciles_with(copier),
    );
    let _running = RunningComponent::of(manager);
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    maps.create(&config_map("copy-a", "v", "1")).await.unwrap();
    let leases = cluster.cache::<Lease>();
    let key = Key::new("default", "copy-a");
    let mut changes = leases.subscribe(None).unwrap();
    let mut uids = Vec::new();
    while uids.len() < 2 {
        match leases
            .find(&key)
            .filter(|lease| !uids.contains(&lease.uid().to_owned()))
        {
            None => drop(in_time(changes.next()).await.unwrap()),
            Some(lease) => {
                uids.push(lease.uid().to_owned());
                let handle = cluster.client("test").namespaced::<Lease>("default");
                let _ = handle.delete("copy-a", DeleteOptions::default()).await;
            }
        }
    }
}

/// CL9, CL10: a controller, a scheduler and node agents, each with an address only, make pods run. They share
/// no memory and know of each other by objects alone.
#[tokio::test]
async fn cl9_parts_need_nothing_but_an_address() {
    let cluster = Cluster::start().await;
    let served = cluster.serve_https().await;
    let parts = [
        Component::Controller("deployment"),
        Component::Controller("replicaset"),
        Component::Scheduler,
        Component::nodes(2),
    ];
    let mut running_parts = Vec::new();
    for part in parts {
        let http = Http::new(&served.connection()).unwrap();
        let found = discovery::discover(&http).await.unwrap();
        let watchable = found.into_iter().filter(|resource| resource.is_watchable());
        let client = Client::new(Arc::new(http), Arc::new(User::default()));
        let factory = SharedInformerFactory::new(client.clone(), clock())
            .with_resources(watchable.map(|resource| resource.gvr));
        running_parts.push(cluster.run_in(Manager::with_factory(factory, client, clock()), part));
    }
    let sets = cluster.client("test").namespaced::<ReplicaSet>("default");
    sets.create(&replica_set("web").replicas(3).build())
        .await
        .unwrap();
    let pods = cluster.cache::<Pod>();
    let mut changes = pods.subscribe(None).unwrap();
    let running = || {
        let pods = cluster.list::<Pod>();
        let is_running = |pod: &&Pod| {
            let status = pod.status.as_ref();
            status.and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        pods.iter().filter(is_running).count()
    };
    while running() < 3 {
        assert!(
            running_parts.iter_mut().all(RunningComponent::is_running),
            "a part ended"
        );
        in_time(changes.next()).await.unwrap();
    }
    assert_eq!(
        cluster.interceptor.writes().len(),
        1,
        "only the test used another way"
    );
}
