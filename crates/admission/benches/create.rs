//! What a create costs in process: the registry with the default admission plugins on a memory store, without HTTP and
//! without a disk.
//!
//! ```text
//! cargo bench -p setpoint-admission --bench create -- pods 20000
//! ```
//!
//! creates so many pods and prints the time of each; `configmaps` creates ConfigMaps. Two runs of different length under
//! `valgrind --tool=callgrind` give the instructions of a create, which do not depend on the load of the machine.

#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]
#![allow(clippy::print_stdout, reason = "a measurement is printed")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use setpoint_admission::{Chain, Config};
use setpoint_api::options::WriteOptions;
use setpoint_api::{Clock, Gvr, Payload, Request, Serve, SystemClock, Target, User, Verb};
use setpoint_registry::{Registry, WatchCaches};
use setpoint_store::Store;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Length of a pod's JSON, as in `setpoint-bench api`.
const POD_BYTES: usize = 2560;

/// Length of a ConfigMap's JSON, as in `setpoint-bench api`.
const CONFIG_MAP_BYTES: usize = 1024;

/// How many objects are created unless an argument has another number.
const DEFAULT_CREATES: usize = 20_000;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let resource = arguments.next().unwrap_or_else(|| "pods".to_owned());
    let creates = arguments.next().map(|number| number.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(run(&resource, creates.unwrap_or(DEFAULT_CREATES)));
}

async fn run(resource: &str, creates: usize) {
    let mut running = JoinSet::new();
    let registry = start(&mut running).await;
    let object = match resource {
        "pods" => pod(),
        "configmaps" => config_map(),
        other => panic!("{other} is neither pods nor configmaps"),
    };
    let bodies: Vec<String> = (0..creates)
        .map(|number| object.replace("########", &format!("{number:08}")))
        .collect();
    let start = Instant::now();
    for body in bodies {
        create(&registry, resource, body).await;
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / creates as f64;
    println!("{each:8.2} us  create {resource}");
}

async fn start(running: &mut JoinSet<()>) -> Arc<Registry> {
    let clock = Arc::new(SystemClock::new());
    let times = clock.clone();
    let kinds = setpoint_kinds::builtin();
    let store = Store::memory(setpoint_store::Config::new(Arc::new(move || times.millis())));
    let registry = Registry::new(setpoint_registry::Config {
        bootstrap: setpoint_kinds::bootstrap::objects(&kinds, None),
        caches: WatchCaches::open(store, Arc::new(kinds)),
        admit: Arc::new(Chain::standard(&Config::default())),
        virtual_resources: Arc::new(setpoint_registry_api::NoVirtualResources),
        webhooks: Arc::new(setpoint_registry_api::NoWebhooks),
        clock,
        event_ttl: Duration::from_secs(3600),
        allow_privileged: false,
    });
    let runner = registry.clone();
    running.spawn(async move { runner.run(CancellationToken::new()).await.unwrap() });
    registry.started().await;
    registry
}

async fn create(registry: &Registry, resource: &str, body: String) {
    let target = Target::in_namespace(Gvr::new("", "v1", resource), "default");
    let user = Arc::new(User::component("bench"));
    let verb = Verb::Create(Payload::json(body), WriteOptions::default());
    registry.call(Request { user, target, verb }).await.unwrap();
}

/// The ConfigMap of `setpoint-bench api`.
fn config_map() -> String {
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "bench-########", "labels": {"app": "bench", "tier": "backend"}},
        "data": {"count": "########", "text": ""},
    });
    padded(object, "/data/text", CONFIG_MAP_BYTES)
}

/// The pod of `setpoint-bench api`.
fn pod() -> String {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "bench-########",
            "labels": {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "tier": "backend"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090", "example.com/text": ""},
        },
        "spec": {
            "containers": [container("web", 8080), container("proxy", 9090)],
            "volumes": [
                {"name": "config", "configMap": {"name": "web-config"}},
                {"name": "cache", "emptyDir": {"sizeLimit": "64Mi"}},
            ],
            "restartPolicy": "Always",
            "schedulerName": "bench-absent",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 1000},
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
    });
    padded(object, "/metadata/annotations/example.com~1text", POD_BYTES)
}

fn container(name: &str, port: u16) -> Value {
    json!({
        "name": name,
        "image": format!("registry.example.com/shop/{name}:1.27.3"),
        "args": ["--listen=0.0.0.0", format!("--port={port}"), "--log-format=json"],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"}],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "UPSTREAM", "value": "http://orders.default.svc:8080"},
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/web", "readOnly": true},
            {"name": "cache", "mountPath": "/var/cache"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": name}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/live", "port": name}, "initialDelaySeconds": 10, "periodSeconds": 10},
    })
}

/// Fills one text of the object until its JSON has exactly this length.
fn padded(mut object: Value, pointer: &str, length: usize) -> String {
    let missing = length.checked_sub(object.to_string().len()).unwrap();
    let text: String = "lorem ipsum ".chars().cycle().take(missing).collect();
    *object.pointer_mut(pointer).unwrap() = Value::String(text);
    object.to_string()
}
