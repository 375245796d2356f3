//! The server as a component of the agent: connections inside the process, the port of a node, and the rotation of logs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use setpoint_client::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::agent_api::AgentApi;
use super::connection::Server;
use super::listener::{Listener, ServerTls};
use super::local::LocalListener;
use crate::logs::rotation::{RotationPolicy, rotate_logs};

/// How often logs are looked at for rotation.
const ROTATION_INTERVAL: Duration = Duration::from_secs(10);

/// How the agent is reached, and what it does with logs.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    /// Connections of the API server in this process to the nodes.
    pub local: Option<LocalListener>,
    /// The port of a node over the network.
    pub port: Option<PortConfig>,
    /// When log files are rotated; never, if the runtime has none.
    pub rotation: Option<RotationPolicy>,
}

/// The port of a node.
#[derive(Debug, Clone)]
pub struct PortConfig {
    /// The node.
    pub node: String,
    /// The address; the kubelet's port is 10250.
    pub address: SocketAddr,
    /// The certificates.
    pub tls: ServerTls,
}

/// Runs all that is configured until stopped. `reviews` reviews the tokens and the access of clients over the network.
pub(crate) async fn run(
    config: ServerConfig,
    agent: Arc<dyn AgentApi>,
    reviews: Client,
    stop: CancellationToken,
) {
    let local = config.local.map(|local| local.run(agent.clone(), stop.clone()));
    let port = config
        .port
        .map(|port| listen(port, agent.clone(), reviews, stop.clone()));
    let rotation = config.rotation.map(|policy| rotate(policy, &*agent, &stop));
    tokio::join!(
        OptionFuture::from(local),
        OptionFuture::from(port),
        OptionFuture::from(rotation)
    );
}

async fn listen(config: PortConfig, agent: Arc<dyn AgentApi>, reviews: Client, stop: CancellationToken) {
    let PortConfig { node, address, tls } = config;
    let tls = match tls.config() {
        Ok(tls) => tls,
        Err(error) => {
            tracing::error!(%error, "cannot use the certificates of the node's port");
            return;
        }
    };
    match TcpListener::bind(address).await {
        Ok(listener) => {
            let server = Server { agent, node };
            let this = Listener { server, reviews, tls };
            this.run(listener, stop).await;
        }
        Err(error) => tracing::error!(%error, %address, "cannot listen on the node's port"),
    }
}

async fn rotate(policy: RotationPolicy, agent: &dyn AgentApi, stop: &CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = agent.clock().sleep(ROTATION_INTERVAL) => {}
        }
        rotate_logs(agent.runtime(), policy, agent.clock().now()).await;
    }
}
