//! Informers on an unreliable connection: connections are cut and the server is killed while objects change.

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

/// The number of changes, and of failures injected meanwhile.
const CHANGES: u64 = 400;
const FAULTS: u64 = 12;

/// The system clock, with sleeps shortened to a hundredth.
#[derive(Debug)]
struct FastClock(SystemClock);

impl Clock for FastClock {
    fn now(&self) -> jiff::Timestamp {
        self.0.now()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + Sync>> {
        self.0.sleep(duration / 100)
    }
}

/// A TCP proxy to the server whose connections can be broken and redirected.
struct BreakableProxy {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    cut: Arc<Mutex<CancellationToken>>,
    _task: JoinSet<()>,
}

impl BreakableProxy {
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
            let mut connections = JoinSet::new();
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                let (target, cut) = (*to.lock().unwrap(), token.lock().unwrap().clone());
                connections.spawn(async move {
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

    /// Breaks every connection, even in the middle of a response.
    fn cut(&self) {
        let fresh = CancellationToken::new();
        std::mem::replace(&mut *self.cut.lock().unwrap(), fresh).cancel();
    }

    fn redirect(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }
}

fn address(connection: &Connection) -> SocketAddr {
    connection.server.trim_start_matches("https://").parse().unwrap()
}

/// The change of this number: a create, an update or a delete.
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

/// A last write marks the end: a cache that has it has everything before.
async fn write_last(maps: &Api<ConfigMap>) -> ResourceVersion {
    let mut last = ConfigMap::default();
    last.metadata.name = Some("last".to_owned());
    maps.create(&last).await.unwrap().resource_version()
}

/// IN12, IN19: after any failure of the connection or the server, the cache equals the server's state, and handlers get
/// each object's changes in order, none twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in12_an_informer_survives_cut_connections_and_killed_servers() {
    let mut server = Cluster::new(&["--controllers", "none"]);
    let direct = server.connection();
    let proxy = BreakableProxy::to(address(&direct)).await;
    let proxied = Connection {
        server: format!("https://{}", proxy.address),
        ..direct
    };
    let clock: Arc<dyn Clock> = Arc::new(FastClock(SystemClock::new()));
    let serve: Arc<dyn Serve> = Arc::new(Http::with_clock(&proxied, clock.clone()).unwrap());
    let factory = SharedInformerFactory::new(Client::new(serve, Arc::new(User::default())), clock);
    let (informer, recorder) = (
        factory.informer_for::<ConfigMap>(),
        NotificationRecorder::default(),
    );
    let _registration = informer
        .add_handler(HandlerOptions::default(), recorder.handler())
        .unwrap();
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let (own, token) = (factory.clone(), stop.clone());
    running.spawn(async move { own.run(token).await.unwrap() });
    factory.synced().await;

    let mut maps = server.client().namespaced::<ConfigMap>("default");
    for number in 1..=CHANGES {
        change(&maps, number).await;
        if number % (CHANGES / FAULTS) == 0 {
            proxy.cut();
        }
        if number == CHANGES / 2 {
            server = Cluster::start(&server.kill(), &["--controllers", "none"]);
            proxy.redirect(address(&server.connection()));
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
    let last = write_last(&maps).await;
    let delivered = async {
        informer.cache().reached(last).await;
        recorder.until(|known| known.contains_key("last")).await;
    };
    tokio::time::timeout(Duration::from_secs(60), delivered)
        .await
        .unwrap();
    stop.cancel();
    running.join_next().await.unwrap().unwrap();
    let mut mirrored = versions(informer.cache().snapshot().iter());
    mirrored.remove("last");
    assert_eq!(mirrored, expected);
    assert_eq!(recorder.violations(), [""; 0]);
    let delivered = recorder.versions();
    assert!(
        expected
            .iter()
            .all(|(name, version)| delivered.get(name) == Some(version))
    );
}
