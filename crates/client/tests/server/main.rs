//! The client against the real registry: in this process, over HTTPS in JSON, and over HTTPS in protobuf.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod json_fallback;
mod protobuf;
mod verbs;

use std::sync::Arc;

use setpoint_api::{SystemClock, User};
use setpoint_client::{Client, Http};
use setpoint_testkit::{Cluster, HttpsServer};

/// A cluster, and a client of each kind.
struct Clients {
    cluster: Cluster,
    _server: HttpsServer,
    json: Http,
}

impl Clients {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        let server = cluster.serve_https().await;
        let json = Http::with_clock(&server.connection(), Arc::new(SystemClock::new())).unwrap();
        Self {
            cluster,
            _server: server,
            json,
        }
    }

    /// Each client with the name of its kind, which tests also use for their objects.
    fn all(&self) -> [(&'static str, Client); 3] {
        [
            ("local", self.cluster.client("test")),
            ("json", client_over(self.json.clone())),
            ("protobuf", client_over(self.json.protobuf())),
        ]
    }
}

fn client_over(http: Http) -> Client {
    Client::new(Arc::new(http), Arc::new(User::default()))
}
