//! The server of all runs, which is killed and restarted, and its clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::options::DeleteOptions;
use setpoint_api::{Clock, ResourceVersion, Stored};
use setpoint_testkit::faults::ServerAddress;
use setpoint_testkit::{Cluster, HttpsServer, SteppedClock, config_map, namespace};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;

/// One server for all runs.
pub(crate) struct TestServer {
    pub(crate) clock: SteppedClock,
    pub(crate) target: ServerAddress,
    /// Absent only while it is being killed. The write lock blocks all requests that long.
    server: RwLock<Option<(Cluster, HttpsServer)>>,
    changes: AtomicUsize,
    restarts: AtomicUsize,
}

/// The clock advances by a second in each of these.
const TICK: Duration = Duration::from_millis(1);

impl TestServer {
    pub(crate) async fn start() -> Arc<Self> {
        let cluster = Cluster::start().await;
        let served = cluster.serve_https().await;
        Arc::new(Self {
            clock: cluster.clock.clone(),
            target: ServerAddress::new(served.address()),
            server: RwLock::new(Some((cluster, served))),
            changes: AtomicUsize::new(0),
            restarts: AtomicUsize::new(0),
        })
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        let server = self.server.read().await;
        let (cluster, _) = server.as_ref().unwrap();
        let namespaces = cluster.client("writer").all();
        namespaces.create(&namespace(name)).await.unwrap();
    }

    /// Creates, changes or deletes an object.
    pub(crate) async fn change(&self, namespace: &str, name: &str, delete: bool) {
        let server = self.server.read().await;
        let (cluster, _) = server.as_ref().unwrap();
        let maps = cluster.client("writer").namespaced::<ConfigMap>(namespace);
        if delete {
            let _ = maps.delete(name, DeleteOptions::default()).await;
            return;
        }
        let number = self.changes.fetch_add(1, Ordering::Relaxed).to_string();
        let mut map = config_map(name, "v", &number);
        map.metadata.namespace = Some(namespace.to_owned());
        if maps.update(&map).await.is_err_and(|status| status.is_not_found()) {
            maps.create(&map).await.unwrap();
        }
    }

    /// The objects of a namespace, as the server has them.
    pub(crate) async fn versions(&self, namespace: &str) -> BTreeMap<String, ResourceVersion> {
        let server = self.server.read().await;
        let (cluster, _) = server.as_ref().unwrap();
        let maps = cluster.client("reader").namespaced::<ConfigMap>(namespace);
        let list = maps.list(&Default::default()).await.unwrap();
        versions(list.items.iter().map(|map| map.stored()))
    }

    /// Advances the clock: a thousand times faster than real time, and slower on a busy machine.
    pub(crate) async fn let_time_pass(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_some() {
            let next = self.clock.now().saturating_add(Duration::from_secs(1)).unwrap();
            self.clock.set(next);
        }
    }

    /// Kills the server and restarts it at another address, in this period.
    pub(crate) async fn kill_periodically(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        while stop.run_until_cancelled(self.clock.sleep(every)).await.is_some() {
            let mut server = self.server.write().await;
            let (cluster, served) = server.take().unwrap();
            served.kill().await;
            let cluster = cluster.restart().await;
            let served = cluster.serve_https().await;
            self.target.move_to(served.address());
            *server = Some((cluster, served));
            self.restarts.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn restarts(&self) -> usize {
        self.restarts.load(Ordering::Relaxed)
    }
}

/// The version of each object, by name.
pub(crate) fn versions<'a>(
    objects: impl Iterator<Item = &'a Arc<Stored>>,
) -> BTreeMap<String, ResourceVersion> {
    objects
        .map(|object| (object.key().name().to_owned(), object.resource_version()))
        .collect()
}
