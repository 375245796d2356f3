//! What a process of its own tells probes and whoever gathers figures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{Key, Status};
use setpoint_client::{Client, Http};
use setpoint_runtime::reconcile::{Error, Next, Reconcile};
use setpoint_runtime::{Manager, for_, leader};
use setpoint_testkit::{Cluster, config_map};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{LIMIT, clock, in_time};

struct Idle;

impl Reconcile for Idle {
    async fn reconcile(&self, _: &Key) -> Result<Next, Error> {
        Ok(Next::Done)
    }
}

/// A manager that runs, and where it answers.
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinSet<Result<(), Error>>,
}

impl Running {
    async fn start(mut manager: Manager) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        manager.serve(listener);
        let mut task = JoinSet::new();
        task.spawn(manager.run(stop.clone()));
        Self { address, stop, task }
    }

    /// The first line of an answer and its body.
    async fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let message = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(message.as_bytes()).await.unwrap();
        let mut answer = String::new();
        in_time(stream.read_to_string(&mut answer)).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let line = head.lines().next().unwrap().trim_start_matches("HTTP/1.1 ");
        (line.to_owned(), body.to_owned())
    }

    #[track_caller]
    fn same(&self, answer: &(String, String), code: &str, body: &str) {
        assert_eq!((answer.0.as_str(), answer.1.as_str()), (code, body));
    }
}

fn manager(cluster: &Cluster) -> Manager {
    let mut manager = cluster.manager("test");
    manager.control(for_::<ConfigMap>().named("idle").reconciles_with(Idle));
    manager
}

const WELL: &str = "200 OK";
const UNWELL: &str = "500 Internal Server Error";

/// A process is ready once it has seen what its controllers read; that it lives does not depend on it.
#[tokio::test]
async fn a_manager_is_ready_when_its_caches_are_filled() {
    let cluster = Cluster::start().await;
    cluster
        .link
        .refuse(|call| (!call.is_write()).then(|| Status::unavailable("not yet")));
    let running = Running::start(manager(&cluster)).await;
    let expected = "[-]caches failed: reason withheld\nreadyz check failed\n";
    cluster.settle().await;
    running.same(&running.ask("GET /readyz").await, UNWELL, expected);
    let why = "internal server error: not seen in full yet: configmaps\n";
    running.same(&running.ask("GET /readyz/caches").await, UNWELL, why);
    running.same(&running.ask("GET /healthz").await, WELL, "ok");
    cluster.link.allow_all();
    cluster.advance(Duration::from_secs(60)).await;
    running.same(&running.ask("GET /readyz").await, WELL, "ok");
}

#[tokio::test]
async fn a_check_of_ones_own_decides_whether_the_process_lives() {
    let cluster = Cluster::start().await;
    let mut manager = manager(&cluster);
    let broken = Arc::new(AtomicBool::new(false));
    let own = broken.clone();
    manager.check("disk", move || match own.load(Ordering::Relaxed) {
        true => Err("out of space".to_owned()),
        false => Ok(()),
    });
    let running = Running::start(manager).await;
    let verbose = running.ask("GET /healthz?verbose").await;
    running.same(&verbose, WELL, "[+]disk ok\nhealthz check passed\n");
    broken.store(true, Ordering::Relaxed);
    let expected = "[-]disk failed: reason withheld\nhealthz check failed\n";
    running.same(&running.ask("GET /healthz").await, UNWELL, expected);
    running.same(&running.ask("GET /healthz?exclude=disk").await, WELL, "ok");
    let unknown = running.ask("GET /secrets").await;
    running.same(&unknown, "404 Not Found", "404 page not found\n");
    let post = running.ask("POST /healthz").await;
    running.same(&post, "405 Method Not Allowed", "method not allowed\n");
}

/// WQ3, IN9: everything that client-go and controller-runtime count, under their names, of a process of its own.
#[tokio::test]
async fn wq3_the_figures_of_a_process_are_told_by_their_known_names() {
    let cluster = Cluster::start().await;
    let served = cluster.serve_https().await;
    let client = Client::remote(Http::new(&served.connection()).unwrap());
    let mut manager = Manager::remote(client, clock());
    manager.control(for_::<ConfigMap>().named("idle").reconciles_with(Idle));
    manager.elect(leader::Config::new("default", "idle", "me"));
    let running = Running::start(manager).await;
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
    let told = async {
        loop {
            let (line, text) = running.ask("GET /metrics").await;
            assert_eq!(line, WELL);
            let is_told = |wanted: &&str| {
                let mut lines = text.lines();
                lines.any(|own| own.starts_with(wanted) && !own.ends_with(" 0"))
            };
            if expected.iter().all(is_told) {
                return text;
            }
            seen.replace(text);
        }
    };
    let Ok(text) = tokio::time::timeout(LIMIT, told).await else {
        panic!("not all of {expected:?} is in {}", seen.take());
    };
    let queued =
        "setpoint_informer_queued_changes{name=\"\",group=\"\",version=\"v1\",resource=\"configmaps\"} ";
    assert!(text.lines().any(|line| line.starts_with(queued)), "{text}");
    let mut types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all, "no figure is told twice");
}

/// One who keeps a connection open and silent does not hold up the end.
#[tokio::test]
async fn the_port_is_closed_when_the_manager_stops() {
    let cluster = Cluster::start().await;
    let mut running = Running::start(manager(&cluster)).await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let message = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    silent.write_all(message).await.unwrap();
    let mut answer = [0; 12];
    in_time(silent.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    running.stop.cancel();
    in_time(running.task.join_next()).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
    let mut rest = Vec::new();
    in_time(silent.read_to_end(&mut rest)).await.unwrap();
}
