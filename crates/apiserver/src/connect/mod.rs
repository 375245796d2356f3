//! Streams to where things run: logs, commands, ports and plain HTTP of pods, services and nodes.
//!
//! The server finds the place and passes the request on; what travels is between the caller and the node. `locate`
//! finds places, `log`, `exec` and `proxy` say what is asked there, and `relay` carries the bytes. How a place is
//! reached is [`Connect`]'s business: over the network, or inside the process.
//!
//! Start reading at [`answer`].

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use http::Response;
use hyper::body::Incoming;
use setpoint_api::{Status, User};
use setpoint_kinds::Subresource;
use setpoint_kinds::strategy::Part;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::Body;
use crate::chain::Exchange;
use crate::request::Address;
use crate::request::options::Refused;

mod exec;
mod locate;
mod log;
mod network;
mod proxy;
pub(crate) mod relay;

pub use network::Network;
pub(crate) use network::in_gos_words;

/// Reaches the places where things run.
pub trait Connect: Send + Sync {
    /// Opens a connection to a place. For `https` it is the connection inside TLS.
    fn connect(&self, place: Place) -> Connecting;
}

/// A connection to come.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where something runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub secure: bool,
    /// A name or an address.
    pub host: String,
    pub port: u16,
    /// The node's name, where the place is the node's own server.
    pub node: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Whether a subresource is a stream rather than a document.
pub(crate) fn is_stream(part: &Subresource) -> bool {
    part.part == Part::Connect
}

/// Whether a stream goes on behind its name: a proxy takes every verb and any path.
pub(crate) fn takes_paths(part: &Subresource) -> bool {
    is_stream(part) && part.verbs.len() == 5
}

/// Opens the stream that a request asks for.
pub(crate) async fn answer(
    exchange: &Exchange<'_>,
    address: &Address,
    user: &Arc<User>,
    body: Incoming,
) -> Result<Response<Body>, Refused> {
    let target = &address.target;
    let part = target.subresource.as_deref().unwrap_or_default();
    match (target.resource.resource.as_str(), part) {
        ("pods", "log") => log::answer(exchange, address, user).await,
        ("pods", "exec" | "attach" | "portforward") => exec::answer(exchange, address, user, body).await,
        (_, "proxy") => proxy::answer(exchange, address, user, body).await,
        _ => Err(Box::new(Status::no_such_resource())),
    }
}
