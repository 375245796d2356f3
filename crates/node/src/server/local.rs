//! Connections inside the process: the API server reaches the nodes that run beside it without a network.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::agent_api::AgentApi;
use super::authorization::Access;
use super::connection::{Server, serve};

/// Connections that wait to be served.
const QUEUED_CONNECTIONS: usize = 64;
/// Bytes of a connection that wait to be read.
const PIPE_BYTES: usize = 64 << 10;

/// Opens connections to the nodes of this process.
#[derive(Debug, Clone)]
pub struct LocalConnector {
    nodes: Arc<HashSet<String>>,
    connections: mpsc::Sender<LocalConnection>,
}

/// Receives connections for the nodes of this process. Clones share one queue, which the first to run serves.
#[derive(Debug, Clone)]
pub struct LocalListener {
    connections: Arc<Mutex<Option<mpsc::Receiver<LocalConnection>>>>,
}

#[derive(Debug)]
struct LocalConnection {
    node: String,
    stream: DuplexStream,
}

/// A connector and the listener of these nodes.
pub fn pair(nodes: impl IntoIterator<Item = String>) -> (LocalConnector, LocalListener) {
    let (sender, receiver) = mpsc::channel(QUEUED_CONNECTIONS);
    let connector = LocalConnector {
        nodes: Arc::new(nodes.into_iter().collect()),
        connections: sender,
    };
    let listener = LocalListener {
        connections: Arc::new(Mutex::new(Some(receiver))),
    };
    (connector, listener)
}

impl LocalConnector {
    /// Whether the node runs in this process.
    pub fn has_node(&self, node: &str) -> bool {
        self.nodes.contains(node)
    }

    /// Opens a connection to a node of this process.
    pub async fn connect(&self, node: &str) -> io::Result<DuplexStream> {
        let (client, stream) = tokio::io::duplex(PIPE_BYTES);
        let node = node.to_owned();
        let sent = self.connections.send(LocalConnection { node, stream }).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(client)
    }
}

impl LocalListener {
    /// Serves connections until stopped.
    pub async fn run(self, agent: Arc<dyn AgentApi>, stop: CancellationToken) {
        let Some(mut incoming) = self.connections.lock().take() else {
            return;
        };
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(_) = connections.join_next() => {}
                connection = incoming.recv() => {
                    let Some(LocalConnection { node, stream }) = connection else { return };
                    let server = Server { agent: agent.clone(), node };
                    connections.spawn(serve(server, Access::ApiServer, stream));
                }
            }
        }
    }
}
