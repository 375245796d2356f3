//! A cluster served over HTTPS, for all tests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{ResourceVersion, User};
use setpoint_client::Http;
use setpoint_runtime::Client;
use setpoint_testkit::{Cluster, HttpsServer, Interceptor, config_map};

use crate::in_time;
use crate::watch_control::WatchControl;

/// A cluster served over HTTPS, and a client whose requests are recorded and whose watches can be interrupted.
pub(crate) struct RemoteCluster {
    pub(crate) cluster: Cluster,
    pub(crate) watches: Arc<WatchControl>,
    pub(crate) link: Arc<Interceptor>,
    pub(crate) http: Http,
    pub(crate) client: Client,
    _served: HttpsServer,
}

impl RemoteCluster {
    pub(crate) async fn open() -> Self {
        let cluster = Cluster::start().await;
        let served = cluster.serve_https().await;
        let http = Http::new(&served.connection()).unwrap();
        let watches = WatchControl::to(Arc::new(http.clone()));
        let link = Interceptor::new(watches.clone());
        let client = Client::new(link.clone(), Arc::new(User::component("remote")));
        Self {
            cluster,
            watches,
            link,
            http,
            client,
            _served: served,
        }
    }

    pub(crate) async fn create(&self, name: &str) {
        let maps = self.cluster.client("test").namespaced::<ConfigMap>("default");
        maps.create(&config_map(name, "v", "0")).await.unwrap();
    }

    pub(crate) async fn update(&self, name: &str, value: &str) -> ResourceVersion {
        let maps = self.cluster.client("test").namespaced::<ConfigMap>("default");
        let updated = maps.update(&config_map(name, "v", value)).await;
        updated.unwrap().resource_version()
    }
}

/// Waits until the condition is true, while other tasks run.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    in_time(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
