//! What the verbs cost without HTTP and without a disk: time per call on one thread, memory store.

#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]
#![allow(clippy::print_stdout, reason = "a measurement is printed")]

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::options::{FieldValidation, GetOptions, ListOptions, WriteOptions};
use setpoint_api::{
    Clock, Gvr, Key, Payload, Request, ResourceVersion, Serve, SystemClock, Target, User, Verb,
};
use setpoint_codec::strict;
use setpoint_registry::{Config, Registry, WatchCaches};
use setpoint_registry_api::AdmitAll;
use setpoint_schema::apply::{self, FieldManager, FieldSet};
use setpoint_schema::{Map, Shape, Tree};
use setpoint_store::Store;
use setpoint_strategy::RequestFacts;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const ROUNDS: usize = 20_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    steps();
    runtime.block_on(verbs());
}

/// The steps of a create that the kind runs.
fn steps() {
    let kinds = setpoint_kinds::builtin();
    let pods = kinds.find(&Gvr::new("", "v1", "pods")).unwrap();
    let document = pod("a");
    println!("pod document: {} bytes", document.len());
    let decode = || {
        let encoding = setpoint_api::call::Encoding::Json;
        strict::decode(
            document.as_bytes(),
            encoding,
            pods.shape(),
            FieldValidation::Strict,
        )
        .unwrap()
    };
    measure("decode pod", || drop(decode()));
    let tree = decode().tree;
    measure("clone pod", || drop(tree.clone()));
    measure("take in pod (with a clone)", || {
        pods.prepare_input(&mut tree.clone()).unwrap();
    });
    let mut tree = tree;
    pods.prepare_input(&mut tree).unwrap();
    let facts = RequestFacts {
        now: SystemClock::new().now(),
        user: Arc::new(User::component("bench")),
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    };
    measure("validate pod", || {
        pods.validate(&tree, &facts, &setpoint_api::field::Errors::without_paths());
    });
    measure("warn of pod", || drop(pods.warnings(&tree, None)));
    measure("own pod (with a clone)", || own(pods.shape(), &mut tree.clone()));
    own(pods.shape(), &mut tree);
    measure("write pod", || drop(pods.write(&tree)));
    let json = bytes::Bytes::from(pods.write(&tree).unwrap().bytes);
    let key = Key::new("default", "a");
    measure("header of pod", || drop(pods.header_of(&key, &tree)));
    measure("read header of pod", || {
        drop(
            pods.stored(key.clone(), ResourceVersion(1), json.clone())
                .unwrap(),
        );
    });
}

/// Gives all fields of a new object to one manager.
fn own(shape: &Shape, object: &mut Tree) {
    let nothing = Tree::Map(Map::default());
    let manager = FieldManager {
        name: "bench",
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset: &FieldSet::of_fields([["status"].as_slice()]),
        converter: None,
    };
    apply::update(&nothing, object, shape, &manager);
}

async fn verbs() {
    let clock = Arc::new(SystemClock::new());
    let times = clock.clone();
    let kinds = setpoint_kinds::builtin();
    let store = Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())));
    let registry = Registry::new(Config {
        bootstrap: setpoint_kinds::bootstrap::objects(&kinds, None),
        caches: WatchCaches::open(store, Arc::new(kinds)),
        admit: Arc::new(AdmitAll),
        virtual_resources: Arc::new(setpoint_registry_api::NoVirtualResources),
        webhooks: Arc::new(setpoint_registry_api::NoWebhooks),
        clock,
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    });
    let mut running = tokio::task::JoinSet::new();
    let runner = registry.clone();
    running.spawn(async move { runner.run(CancellationToken::new()).await });
    registry.started().await;
    create(&registry, "configmaps", config_map).await;
    create(&registry, "pods", pod).await;
    read(&registry, "pods").await;
}

async fn create(registry: &Registry, resource: &str, document: fn(&str) -> String) {
    let target = Target::in_namespace(Gvr::new("", "v1", resource), "default");
    let user = Arc::new(User::component("bench"));
    let documents: Vec<String> = (0..ROUNDS).map(|n| document(&format!("o{n}"))).collect();
    let bytes = documents[0].len();
    let start = Instant::now();
    for document in documents {
        let verb = Verb::Create(Payload::json(document), WriteOptions::default());
        let (user, target) = (user.clone(), target.clone());
        registry.call(Request { user, target, verb }).await.unwrap();
    }
    report(
        &format!("create {resource} of {bytes} bytes, feed included"),
        start,
    );
}

async fn read(registry: &Registry, resource: &str) {
    let user = Arc::new(User::component("bench"));
    let gvr = Gvr::new("", "v1", resource);
    let start = Instant::now();
    for n in 0..ROUNDS {
        let target = Target::object(gvr.clone(), &Key::new("default", &format!("o{n}")));
        let verb = Verb::Get(GetOptions::default());
        let user = user.clone();
        registry.call(Request { user, target, verb }).await.unwrap();
    }
    report(&format!("get {resource}"), start);
    let start = Instant::now();
    let target = Target::all(gvr);
    let verb = Verb::List(ListOptions::default());
    registry.call(Request { user, target, verb }).await.unwrap();
    report(&format!("list {resource}, per object"), start);
}

fn measure(what: &str, mut step: impl FnMut()) {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        step();
    }
    report(what, start);
}

fn report(what: &str, start: Instant) {
    let each = start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64;
    println!("{each:8.2} us  {what}");
}

fn config_map(name: &str) -> String {
    let text = "x".repeat(900);
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"key":"{text}"}}}}"#
    )
}

fn pod(name: &str) -> String {
    let env: Vec<String> = (0..16)
        .map(|n| format!(r#"{{"name":"VARIABLE_{n}","value":"some value {n}"}}"#))
        .collect();
    let container = |name: &str| {
        format!(
            r#"{{"name":"{name}","image":"registry.example/team/app:1.2.3","ports":[{{"containerPort":8080,"name":"http"}}],"env":[{}],"resources":{{"requests":{{"cpu":"100m","memory":"128Mi"}},"limits":{{"cpu":"200m","memory":"256Mi"}}}},"readinessProbe":{{"httpGet":{{"path":"/ready","port":8080}}}},"volumeMounts":[{{"name":"data","mountPath":"/data"}}]}}"#,
            env.join(",")
        )
    };
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"web","tier":"front"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"0b8f5b1e-7d4e-4f7c-9d53-4f1f4c9b6a10","controller":true,"blockOwnerDeletion":true}}]}},"spec":{{"containers":[{},{}],"volumes":[{{"name":"data","emptyDir":{{}}}}],"nodeSelector":{{"disk":"ssd"}}}}}}"#,
        container("app"),
        container("helper")
    )
}
