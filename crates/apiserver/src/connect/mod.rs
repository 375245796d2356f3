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
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;
use setpoint_api::{ApiVerb, User};
use setpoint_registry_api::ConnectRequest;
use setpoint_strategy::ConnectKind;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::Body;
use crate::chain::Exchange;
use crate::request::ResourceRequest;
use crate::request::options::StatusError;
use crate::respond;

mod exec;
mod links;
mod locate;
mod log;
mod network;
mod options;
mod proxy;
pub(crate) mod relay;

pub(crate) use locate::kubelet_address;
pub(crate) use network::dial_error;
pub use network::{KubeletTls, Network};
use options::ConnectOptions;

/// Opens connections to backends.
pub trait Connect: Send + Sync {
    /// Opens a connection to a backend, with TLS if it is secure.
    fn connect(&self, backend: BackendAddress) -> ConnectFuture;

    /// Whether the backend is reached without its address, which then is not resolved.
    fn is_local(&self, _: &BackendAddress) -> bool {
        false
    }

    /// The types of a node's addresses, the preferred first.
    fn node_address_types(&self) -> Vec<&str> {
        locate::ADDRESS_TYPES.to_vec()
    }
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
    /// The addresses of the host, if they are resolved already. Then the connection goes to one of them.
    pub resolved: Vec<IpAddr>,
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

/// Handles a request for a connect subresource. The body is taken when it is forwarded: that of a rejected request is left
/// to be read, so that the client gets the response.
pub(crate) async fn handle(
    exchange: &Exchange<'_>,
    connect: ConnectKind,
    resource: &ResourceRequest,
    user: &Arc<User>,
    body: &mut Option<Incoming>,
) -> Result<Response<Body>, StatusError> {
    if connect == ConnectKind::Log {
        return log::handle(exchange, resource, user).await;
    }
    let options = ConnectOptions::parse(exchange.query, proxy::subpath_of(exchange, resource));
    let (options, warnings) = admit(exchange, connect, resource, (user, options)).await?;
    let mut response = match connect {
        ConnectKind::Exec => exec::exec(exchange, resource, user, (&options, body)).await?,
        ConnectKind::Attach => exec::attach(exchange, resource, user, (&options, body)).await?,
        ConnectKind::PortForward => exec::port_forward(exchange, resource, user, (&options, body)).await?,
        ConnectKind::Proxy | ConnectKind::Log => proxy::handle(exchange, resource, user, body).await?,
    };
    respond::add_warnings(&mut response, &warnings);
    Ok(response)
}

/// Runs admission of a connect. Returns its options, which admission may have changed, and warnings.
async fn admit(
    exchange: &Exchange<'_>,
    connect: ConnectKind,
    resource: &ResourceRequest,
    (user, options): (&Arc<User>, ConnectOptions),
) -> Result<(ConnectOptions, Vec<String>), StatusError> {
    let Some(admission) = &exchange.shared.admit_connect else {
        return Ok((options, Vec::new()));
    };
    let kinds = (exchange.shared.kinds)();
    let kind = kinds.find(&resource.target.resource);
    let subresource = kind.and_then(|kind| kind.info().find_subresource(connect.name()));
    let (_, _, body_kind) = subresource.map(|one| one.body_kind).unwrap_or_default();
    let request = ConnectRequest {
        user: user.clone(),
        target: resource.target.clone(),
        verb: ApiVerb::Create,
        options: options.to_tree(connect, body_kind),
    };
    let admitted = admission.admit_connect(request).await;
    let annotations = match &admitted {
        Ok(admitted) => &admitted.audit_annotations,
        Err(status) => &status.audit_annotations,
    };
    exchange
        .audit
        .update(|record| record.add_annotations(annotations));
    let admitted = admitted.map_err(Box::new)?;
    Ok((ConnectOptions::from_tree(&admitted.options), admitted.warnings))
}
