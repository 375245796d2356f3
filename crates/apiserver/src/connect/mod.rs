//! Connect subresources: log, exec, attach, portforward and proxy of pods, services and nodes.
//!
//! The server finds the backend and forwards the request; the stream's protocol is between client and node. `locate`
//! finds the backend, `log`, `exec` and `proxy` build the request for it, and `relay` forwards it. [`Connect`] opens
//! the connection: over the network, or inside the process.
//!
//! Start reading at [`handle`].

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;
use setpoint_api::{ApiVerb, Status, User};
use setpoint_strategy::Subresource;
use setpoint_strategy::SubresourceKind;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::StatusError;

mod exec;
mod locate;
mod log;
mod network;
mod proxy;
pub(crate) mod relay;

pub use network::Network;
pub(crate) use network::dial_error;

/// Opens connections to backends.
pub trait Connect: Send + Sync {
    /// Opens a connection to a backend, with TLS if it is secure.
    fn connect(&self, backend: BackendAddress) -> ConnectFuture;
}

/// Future of a connection.
pub type ConnectFuture = Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send>>;

/// A bidirectional stream of bytes.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Network address of a backend: a node's kubelet, a pod, or an endpoint of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendAddress {
    pub secure: bool,
    /// A host name or an IP address.
    pub host: String,
    pub port: u16,
    /// The node's name, if the backend is its kubelet.
    pub node: Option<String>,
}

impl fmt::Display for BackendAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Whether a subresource is a stream rather than an object.
pub(crate) fn is_stream(subresource: &Subresource) -> bool {
    subresource.kind == SubresourceKind::Connect
}

/// Whether a path may follow the subresource: a proxy takes every verb and any path.
pub(crate) fn takes_paths(subresource: &Subresource) -> bool {
    is_stream(subresource) && subresource.verbs.contains(ApiVerb::Delete)
}

/// Handles a request for a connect subresource.
pub(crate) async fn handle(
    exchange: &Exchange<'_>,
    resource: &ResourceRequest,
    user: &Arc<User>,
    body: Incoming,
) -> Result<Response<Body>, StatusError> {
    let target = &resource.target;
    let subresource = target.subresource.as_deref().unwrap_or_default();
    match (target.resource.resource.as_str(), subresource) {
        ("pods", "log") => log::handle(exchange, resource, user).await,
        ("pods", "exec" | "attach" | "portforward") => exec::handle(exchange, resource, user, body).await,
        (_, "proxy") => proxy::handle(exchange, resource, user, body).await,
        _ => Err(Box::new(Status::no_such_resource())),
    }
}
