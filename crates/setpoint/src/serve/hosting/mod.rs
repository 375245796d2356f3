//! Hosted clusters: further clusters in this process, in memory, each under a path prefix of the server's port.
//!
//! [`Clusters`] has them by name: it creates, forks and deletes them. `route` is its HTTP API (`/clusters`), which the
//! server's own cluster authorizes like any non-resource path. `views` maps a path to the view of a cluster. No hosted
//! cluster has a credential, an object or a metric in common with another one, or with the server's own.
//!
//! Start reading at [`Clusters`], then `hosted_cluster`.

mod hosted_cluster;
mod keys;
mod options;
mod route;
#[cfg(test)]
mod tests;
mod views;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::RwLock;
use setpoint_api::{Clock, GroupResource, Status};
use setpoint_apiserver::{Audit, View};
use setpoint_controllers::ClusterCertificates;
use setpoint_registry::WatchCaches;
use setpoint_strategy::Kinds;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::kubeconfig::KubeconfigServer;
use crate::args::Up;
use hosted_cluster::{HostedCluster, Origin};
use keys::KeyPool;
use options::ClusterOptions;
pub(super) use route::route;
pub(super) use views::HostedViews;

/// The name under which the server's own cluster can be forked and is served as well.
const OWN_CLUSTER: &str = "root";
/// The path of the API, and of the clusters.
const PATH: &str = "/clusters";
/// How many clusters a server hosts. Each takes memory; only an administrator can create them.
const MAX_CLUSTERS: usize = 1000;

/// What all hosted clusters have from their host.
pub(super) struct Host {
    /// The flags of hosted clusters.
    pub(super) args: Up,
    pub(super) kinds: Arc<Kinds>,
    /// The caches of the server's own cluster, which can be forked.
    pub(super) own: Arc<WatchCaches>,
    pub(super) address: SocketAddr,
    /// How kubeconfigs name the server.
    pub(super) server: KubeconfigServer,
    /// The server's certificates: clients of hosted clusters verify it by its CA.
    pub(super) certificates: watch::Receiver<ClusterCertificates>,
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) clock: Arc<dyn Clock>,
}

/// The hosted clusters, by name.
pub(super) struct Clusters {
    host: Host,
    hosted: RwLock<BTreeMap<String, Arc<HostedCluster>>>,
    keys: KeyPool,
    /// The view of the server's own cluster. It holds the route of this API, so this does not hold the view.
    own_view: OnceLock<Weak<View>>,
    /// One task for each cluster, until it has stopped.
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Clusters {
    pub(super) fn new(host: Host) -> Arc<Self> {
        Arc::new(Self {
            host,
            hosted: RwLock::default(),
            keys: KeyPool::default(),
            own_view: OnceLock::new(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// The views of the server: its own cluster, and the hosted ones.
    pub(super) fn views(self: &Arc<Self>, own: &Arc<View>) -> Arc<HostedViews> {
        self.own_view.get_or_init(|| Arc::downgrade(own));
        Arc::new(HostedViews::new(own.clone(), self.clone()))
    }

    /// Generates keys for new clusters until stopped, then stops all clusters.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) -> anyhow::Result<()> {
        tokio::select! {
            () = stop.cancelled() => {}
            never = self.keys.fill(&self.host.clock) => match never {},
        }
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        Ok(())
    }

    /// Creates a cluster with the bootstrap objects only, and waits until they exist.
    async fn create(self: &Arc<Self>, options: ClusterOptions) -> Result<Arc<HostedCluster>, Status> {
        let view = self.own_view.get().and_then(Weak::upgrade);
        let cluster = self.add(options, || Origin::Empty { view })?;
        tokio::select! {
            () = cluster.registry.started() => Ok(cluster),
            () = cluster.stopped.cancelled() => Err(not_found(&cluster.name)),
        }
    }

    /// Creates a cluster with the objects that another one has now.
    fn fork(self: &Arc<Self>, from: &str, options: ClusterOptions) -> Result<Arc<HostedCluster>, Status> {
        if from == OWN_CLUSTER {
            let view = self.own_view.get().and_then(Weak::upgrade);
            return self.add(options, || Origin::Fork {
                caches: self.host.own.fork(),
                view,
            });
        }
        let origin = self.find(from)?;
        let view = Some(origin.view.clone());
        self.add(options, || Origin::Fork {
            caches: origin.caches.fork(),
            view,
        })
    }

    /// Stops a cluster and waits until it has. From the call on, it is not found.
    async fn delete(&self, name: &str) -> Result<(), Status> {
        if name == OWN_CLUSTER {
            let why = "it is the cluster of the server itself";
            return Err(Status::forbidden(&resource(), name, why));
        }
        let removed = self.hosted.write().remove(name);
        let removed = removed.ok_or_else(|| not_found(name))?;
        removed.stop.cancel();
        removed.stopped.cancelled().await;
        Ok(())
    }

    fn find(&self, name: &str) -> Result<Arc<HostedCluster>, Status> {
        let found = self.hosted.read().get(name).cloned();
        found.ok_or_else(|| not_found(name))
    }

    /// All hosted clusters, by name.
    fn list(&self) -> Vec<Arc<HostedCluster>> {
        self.hosted.read().values().cloned().collect()
    }

    /// Opens a cluster and starts it.
    fn add(
        self: &Arc<Self>,
        options: ClusterOptions,
        origin: impl FnOnce() -> Origin,
    ) -> Result<Arc<HostedCluster>, Status> {
        options.check()?;
        let name = options.name.clone().unwrap_or_else(options::generate_name);
        self.check_free(&name)?;
        let stop = self.stop.child_token();
        let (cluster, components) =
            HostedCluster::open((&self.host, &self.keys), &name, &options, origin(), stop)
                .map_err(|error| Status::internal(format!("cannot create the cluster: {error:#}")))?;
        let cluster = Arc::new(cluster);
        {
            // Another request may have taken the name meanwhile. Then nothing of this cluster has started to serve.
            let mut hosted = self.hosted.write();
            if hosted.contains_key(&name) {
                return Err(Status::already_exists(&resource(), &name));
            }
            hosted.insert(name.clone(), cluster.clone());
        }
        let (clusters, running) = (self.clone(), cluster.clone());
        self.tasks.spawn(async move {
            if let Err(error) = components.wait_until_stopped(&clusters.host.clock).await {
                tracing::error!(
                    cluster = name,
                    error = format!("{error:#}"),
                    "a hosted cluster failed"
                );
                clusters.hosted.write().remove(&name);
            }
            running.stopped.cancel();
        });
        Ok(cluster)
    }

    fn check_free(&self, name: &str) -> Result<(), Status> {
        let hosted = self.hosted.read();
        if name == OWN_CLUSTER || hosted.contains_key(name) {
            return Err(Status::already_exists(&resource(), name));
        }
        if hosted.len() >= MAX_CLUSTERS {
            let why = format!("the server hosts {MAX_CLUSTERS} clusters, which is its limit");
            return Err(Status::forbidden(&resource(), name, &why));
        }
        Ok(())
    }
}

/// The name of the API in error messages.
fn resource() -> GroupResource {
    GroupResource::new("", "clusters")
}

fn not_found(name: &str) -> Status {
    Status::not_found(&resource(), name)
}

impl std::fmt::Debug for Clusters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clusters")
            .field("hosted", &self.hosted.read().len())
            .finish_non_exhaustive()
    }
}
