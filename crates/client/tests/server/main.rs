//! The client against the real registry: in this process, over HTTPS in JSON, and over HTTPS in protobuf.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod protobuf;
mod refusing;
mod verbs;

use std::sync::Arc;

use setpoint_api::{SystemClock, User};
use setpoint_client::{Client, Http};
use setpoint_testkit::{Cluster, Served};

/// A cluster and every way to it.
struct Ways {
    cluster: Cluster,
    _served: Served,
    json: Http,
}

impl Ways {
    async fn open() -> Self {
        let cluster = Cluster::start().await;
        let served = cluster.serve_https().await;
        let json = Http::with_clock(&served.connection(), Arc::new(SystemClock::new())).unwrap();
        Self {
            cluster,
            _served: served,
            json,
        }
    }

    /// Each way with its name, which is also a name for the objects a test makes over it.
    fn all(&self) -> [(&'static str, Client); 3] {
        [
            ("local", self.cluster.client("test")),
            ("json", over(self.json.clone())),
            ("protobuf", over(self.json.protobuf())),
        ]
    }
}

fn over(http: Http) -> Client {
    Client::new(Arc::new(http), Arc::new(User::default()))
}
