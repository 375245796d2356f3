//! [`HostedCluster`]: a running cluster of a host.

use std::sync::Arc;

use anyhow::Result;
use setpoint_apiserver::View;
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::User;
use setpoint_controllers::ClusterCertificates;
use setpoint_registry::{Registry, WatchCaches};
use setpoint_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::keys::{KeyPool, Keys};
use super::options::ClusterOptions;
use super::{Host, PATH};
use crate::serve::cluster::{Cluster, ClusterConfig};
use crate::serve::components::Components;
use crate::serve::{kubeconfig, store_config};

/// What a cluster starts from.
pub(super) enum Origin {
    /// Nothing. The view is one of the same kinds, if there is one.
    Empty { view: Option<Arc<View>> },
    /// The objects of another cluster.
    Fork {
        caches: Arc<WatchCaches>,
        view: Option<Arc<View>>,
    },
}

/// A cluster that runs until it is deleted.
pub(in crate::serve) struct HostedCluster {
    pub(super) name: String,
    /// The URL that clients have as their server.
    pub(super) server: String,
    /// The administrator's kubeconfig.
    pub(super) kubeconfig: Kubeconfig,
    pub(super) view: Arc<View>,
    pub(super) caches: Arc<WatchCaches>,
    pub(super) registry: Arc<Registry>,
    /// Cancelled to stop the cluster.
    pub(super) stop: CancellationToken,
    /// Cancelled once the cluster has stopped.
    pub(super) stopped: CancellationToken,
    /// Held while the cluster runs: its controllers wait for changes.
    _certificates: watch::Sender<ClusterCertificates>,
}

impl HostedCluster {
    /// Builds a cluster and starts its components.
    pub(super) fn open(
        (host, pool): (&Host, &KeyPool),
        name: &str,
        options: &ClusterOptions,
        origin: Origin,
        stop: CancellationToken,
    ) -> Result<(Self, Components)> {
        let args = options.args(&host.args);
        let (caches, is_fork, view) = match origin {
            Origin::Empty { view } => {
                let store = Store::memory(store_config(&args, &host.clock));
                (WatchCaches::open(store, host.kinds.clone()), false, view)
            }
            Origin::Fork { caches, view } => (caches, true, view),
        };
        let server = format!("{}{PATH}/{name}", kubeconfig::server_url(host.server.address));
        let keys = Keys::new(host, pool, &server)?;
        let cluster = Cluster::open(ClusterConfig {
            args: &args,
            caches: caches.clone(),
            credentials: keys.credentials,
            address: host.address,
            audit: host.audit.clone(),
            metrics_sources: Vec::new(),
            custom_routes: Vec::new(),
            clock: host.clock.clone(),
            stop: stop.clone(),
            is_fork,
            origin: view,
            checks: Vec::new(),
        })?;
        let user = User {
            token: Some(keys.administrator),
            ..User::default()
        };
        let root_ca = host.certificates.borrow().root_ca.clone();
        let hosted = Self {
            name: name.to_owned(),
            kubeconfig: kubeconfig::of_cluster(name, &server, &root_ca, host.server, user),
            server,
            view: cluster.view.clone(),
            caches,
            registry: cluster.registry.clone(),
            stop: stop.clone(),
            stopped: CancellationToken::new(),
            _certificates: keys.certificates,
        };
        let mut components = Components::new(stop);
        cluster.start(&mut components);
        Ok((hosted, components))
    }
}
