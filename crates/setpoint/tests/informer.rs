//! Informers on a bad line: connections are cut and the server is killed while objects change.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cluster;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::Cluster;
use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::{DeleteOptions, ListOptions};
use setpoint_api::{Clock, ResourceVersion, Serve, Stored, SystemClock, User};
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Api, Client, Http};
use setpoint_runtime::factory::{HandlerOptions, SharedInformerFactory};
use setpoint_testkit::NotificationRecorder;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// So many changes are made, and so often something goes wrong meanwhile.
const CHANGES: u64 = 400;
const TROUBLES: u64 = 12;

/// The machine's clock, on which waiting takes a hundredth of the time.
#[derive(Debug)]
struct Hasty(SystemClock);

impl Clock for Hasty {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        self.0.sleep(duration / 100)
    }
}

/// A line to the server that can be cut and led elsewhere.
struct Line {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    cut: Arc<Mutex<CancellationToken>>,
    _task: JoinSet<()>,
}

impl Line {
    async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (target, cut) = (
            Arc::new(Mutex::new(target)),
            Arc::new(Mutex::new(CancellationToken::new())),
        );
        let (to, token) = (target.clone(), cut.clone());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut lines = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let (target, cut) = (*to.lock().unwrap(), token.lock().unwrap().clone());
                lines.spawn(async move {
                    let Ok(mut far) = TcpStream::connect(target).await else {
                        return;
                    };
                    tokio::select! {
                        () = cut.cancelled() => {}
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        Self {
            address,
            target,
            cut,
            _task: task,
        }
    }

    /// Breaks every connection, wherever it is in an answer.
    fn cut(&self) {
        let fresh = CancellationToken::new();
        std::mem::replace(&mut *self.cut.lock().unwrap(), fresh).cancel();
    }

    fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }
}

fn address(connection: &Connection) -> SocketAddr {
    connection.server.trim_start_matches("https://").parse().unwrap()
}

/// One change by the number: objects come, change and go.
async fn change(maps: &Api<ConfigMap>, number: u64) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("m{}", number * 7919 % 23));
    map.data = Some([("v".to_owned(), number.to_string())].into());
    let name = map.metadata.name.clone().unwrap();
    if number.is_multiple_of(5) {
        let _ = maps.delete(&name, DeleteOptions::default()).await;
        return;
    }
    if maps.update(&map).await.is_err_and(|status| status.is_not_found()) {
        maps.create(&map).await.unwrap();
    }
}

/// The version of each object, by name.
fn versions<'a>(objects: impl Iterator<Item = &'a Arc<Stored>>) -> BTreeMap<String, ResourceVersion> {
    objects
        .map(|object| (object.key().name().to_owned(), object.resource_version()))
        .collect()
}

/// IN12, IN19: whatever happens to the line and to the server, the mirror ends up like the server, and handlers hear of
/// each object's changes in order, none twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in12_a_mirror_survives_cut_lines_and_killed_servers() {
    let mut server = Cluster::new(&["--controllers", "none"]);
    let direct = server.connection();
    let line = Line::to(address(&direct)).await;
    let proxied = Connection {
        server: format!("https://{}", line.address),
        ..direct
    };
    let clock: Arc<dyn Clock> = Arc::new(Hasty(SystemClock::new()));
    let serve: Arc<dyn Serve> = Arc::new(Http::with_clock(&proxied, clock.clone()).unwrap());
    let factory = SharedInformerFactory::new(Client::new(serve, Arc::new(User::default())), clock);
    let (informer, diary) = (
        factory.informer_for::<ConfigMap>(),
        NotificationRecorder::default(),
    );
    let _place = informer
        .add_handler(HandlerOptions::default(), diary.handler())
        .unwrap();
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (own, token) = (factory.clone(), stop.clone());
    running.spawn(async move { own.run(token).await.unwrap() });
    factory.synced().await;

    let mut maps = server.client().namespaced::<ConfigMap>("default");
    for number in 1..=CHANGES {
        change(&maps, number).await;
        if number % (CHANGES / TROUBLES) == 0 {
            line.cut();
        }
        if number == CHANGES / 2 {
            server = Cluster::start(&server.kill(), &["--controllers", "none"]);
            line.lead_to(address(&server.connection()));
            maps = server.client().namespaced::<ConfigMap>("default");
        }
    }
    let all = server.client().all::<ConfigMap>();
    let list = all.list(&ListOptions::default()).await.unwrap();
    let expected: BTreeMap<_, _> = list
        .items
        .iter()
        .map(|map| (map.key().name().to_owned(), map.resource_version()))
        .collect();
    // A write after the last marks the end: who has seen it has seen everything before.
    let mut last = ConfigMap::default();
    last.metadata.name = Some("last".to_owned());
    let last = maps.create(&last).await.unwrap().resource_version();
    let told = async {
        informer.cache().reached(last).await;
        diary.until(|known| known.contains_key("last")).await;
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.unwrap();
    stop.cancel();
    running.join_next().await.unwrap().unwrap();
    let mut mirrored = versions(informer.cache().snapshot().iter());
    mirrored.remove("last");
    assert_eq!(mirrored, expected);
    assert_eq!(diary.violations(), [""; 0]);
    let told = diary.versions();
    assert!(
        expected
            .iter()
            .all(|(name, version)| told.get(name) == Some(version))
    );
}
