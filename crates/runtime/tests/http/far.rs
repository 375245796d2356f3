//! A cluster at the other end of a line, for all rows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use setpoint_api::{ResourceVersion, User};
use setpoint_client::Http;
use setpoint_runtime::Client;
use setpoint_testkit::{Cluster, Link, Served, config_map};

use crate::in_time;
use crate::line::Line;

/// A cluster behind a port, and a line to it that notes every request and may be disturbed.
pub(crate) struct Far {
    pub(crate) cluster: Cluster,
    pub(crate) line: Arc<Line>,
    pub(crate) link: Arc<Link>,
    pub(crate) http: Http,
    pub(crate) client: Client,
    _served: Served,
}

impl Far {
    pub(crate) async fn open() -> Self {
        let cluster = Cluster::start().await;
        let served = cluster.serve_https().await;
        let http = Http::new(&served.connection()).unwrap();
        let line = Line::to(Arc::new(http.clone()));
        let link = Link::new(line.clone());
        let client = Client::new(link.clone(), Arc::new(User::component("far")));
        Self {
            cluster,
            line,
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

/// Waits until it is so, while everyone else goes on.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    in_time(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
