//! The probe and metrics endpoints of a separate process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{Key, Status};
use setpoint_client::{Client, Http};
use setpoint_conformance::wire::{Caller, Endpoint, Request};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Manager, for_, leader};
use setpoint_testkit::{Cluster, config_map};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{LIMIT, blocking, clock, in_time, send};

struct Idle;

impl Reconcile for Idle {
    async fn reconcile(&self, _: &Key, _: &Client) -> Result<Next, Error> {
        Ok(Next::Done)
    }
}

/// A running manager, and the address of its endpoints.
struct RunningManager {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinSet<Result<(), Error>>,
}

impl RunningManager {
    async fn start(mut manager: Manager) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        manager.serve_endpoints(listener);
        let mut task = JoinSet::new();
        task.spawn(manager.run(stop.clone()));
        Self { address, stop, task }
    }

    /// The code and the body of a response.
    async fn get(&self, request: &str) -> (u16, String) {
        let (method, path) = request.split_once(' ').unwrap();
        let endpoint = Endpoint::of_address(&format!("http://{}", self.address), None).unwrap();
        let response = send(endpoint, Request::new(method, path)).await;
        (response.status, response.text())
    }

    #[track_caller]
    fn check(&self, response: &(u16, String), code: u16, body: &str) {
        assert_eq!((response.0, response.1.as_str()), (code, body));
    }
}

fn manager(cluster: &Cluster) -> Manager {
    let mut manager = cluster.manager("test");
    manager.add_controller(for_::<ConfigMap>().named("idle").reconciles_with(Idle));
    manager
}

const OK: u16 = 200;
const FAILED: u16 = 500;

/// A process is ready once its caches have synced; its liveness does not depend on them.
#[tokio::test]
async fn a_manager_is_ready_when_its_caches_have_synced() {
    let cluster = Cluster::start().await;
    cluster
        .interceptor
        .reject(|call| (!call.is_write()).then(|| Status::unavailable("not yet")));
    let running = RunningManager::start(manager(&cluster)).await;
    let expected = "[-]caches failed: reason withheld\nreadyz check failed\n";
    cluster.settle().await;
    running.check(&running.get("GET /readyz").await, FAILED, expected);
    let reason = "internal server error: caches not synced: configmaps\n";
    running.check(&running.get("GET /readyz/caches").await, FAILED, reason);
    running.check(&running.get("GET /healthz").await, OK, "ok");
    cluster.interceptor.allow_all();
    cluster.advance(Duration::from_secs(60)).await;
    running.check(&running.get("GET /readyz").await, OK, "ok");
}

#[tokio::test]
async fn a_custom_check_decides_whether_the_process_is_live() {
    let cluster = Cluster::start().await;
    let mut manager = manager(&cluster);
    let broken = Arc::new(AtomicBool::new(false));
    let own = broken.clone();
    manager.add_healthz_check("disk", move || match own.load(Ordering::Relaxed) {
        true => Err("out of space".to_owned()),
        false => Ok(()),
    });
    let running = RunningManager::start(manager).await;
    let verbose = running.get("GET /healthz?verbose").await;
    running.check(&verbose, OK, "[+]disk ok\nhealthz check passed\n");
    broken.store(true, Ordering::Relaxed);
    let expected = "[-]disk failed: reason withheld\nhealthz check failed\n";
    running.check(&running.get("GET /healthz").await, FAILED, expected);
    running.check(&running.get("GET /healthz?exclude=disk").await, OK, "ok");
    let unknown = running.get("GET /secrets").await;
    running.check(&unknown, 404, "404 page not found\n");
    let post = running.get("POST /healthz").await;
    running.check(&post, 405, "method not allowed\n");
}

/// WQ3, IN9: the metrics of client-go and controller-runtime, under their names, of a separate process.
#[tokio::test]
async fn wq3_the_metrics_of_a_process_have_their_known_names() {
    let cluster = Cluster::start().await;
    let served = cluster.serve_https().await;
    let client = Client::from_http(Http::new(&served.connection()).unwrap());
    let mut manager = Manager::remote(client, clock());
    manager.add_controller(for_::<ConfigMap>().named("idle").reconciles_with(Idle));
    manager.enable_leader_election(leader::Config::new("default", "idle", "me"));
    let running = RunningManager::start(manager).await;
    let maps = cluster.client("test").namespaced::<ConfigMap>("default");
    maps.create(&config_map("a", "v", "1")).await.unwrap();
    let expected = [
        "workqueue_adds_total{name=\"idle\"} ",
        "controller_runtime_reconcile_total{controller=\"idle\",result=\"success\"} ",
        "controller_runtime_max_concurrent_reconciles{controller=\"idle\"} ",
        "setpoint_informer_store_objects{name=\"\",group=\"\",version=\"v1\",resource=\"configmaps\"} ",
        "informer_store_resource_version{name=\"\",group=\"\",version=\"v1\",resource=\"configmaps\"} ",
        "leader_election_master_status{name=\"idle\"} ",
        "rest_client_requests_total{",
    ];
    let seen = std::cell::RefCell::new(String::new());
    let complete = async {
        loop {
            let (code, text) = running.get("GET /metrics").await;
            assert_eq!(code, OK);
            let is_present = |prefix: &&str| {
                let mut lines = text.lines();
                lines.any(|own| own.starts_with(prefix) && !own.ends_with(" 0"))
            };
            if expected.iter().all(is_present) {
                return text;
            }
            seen.replace(text);
        }
    };
    let Ok(text) = tokio::time::timeout(LIMIT, complete).await else {
        panic!("not all of {expected:?} is in {}", seen.take());
    };
    let queued =
        "setpoint_informer_queued_changes{name=\"\",group=\"\",version=\"v1\",resource=\"configmaps\"} ";
    assert!(text.lines().any(|line| line.starts_with(queued)), "{text}");
    let mut types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all, "every metric name is unique");
}

/// An open idle connection does not delay the shutdown.
#[tokio::test]
async fn the_port_is_closed_when_the_manager_stops() {
    let cluster = Cluster::start().await;
    let mut running = RunningManager::start(manager(&cluster)).await;
    let endpoint = Endpoint::of_address(&format!("http://{}", running.address), None).unwrap();
    let mut idle = endpoint.connect(&Caller::Anonymous).unwrap();
    let idle = blocking(move || {
        let response = idle.round_trip(&Request::new("GET", "/healthz")).unwrap();
        assert_eq!(response.status, 200);
        idle
    });
    let mut idle = idle.await;
    running.stop.cancel();
    in_time(running.task.join_next()).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
    blocking(move || idle.receive_to_end().unwrap()).await;
}
