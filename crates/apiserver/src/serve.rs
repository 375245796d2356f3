//! Connections: accept, shake hands, speak HTTP/1.1 or 2, and stop within a second.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use setpoint_api::{Clock, Serve};
use setpoint_auth::{Authenticate, Authorize, Issuer};
use setpoint_kinds::Kinds;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregate::Aggregator;
use crate::chain;
use crate::connect::Connect;
use crate::discovery::Discovery;
use crate::filters::audit::Ids;
use crate::filters::fair::marks::Marks;
use crate::filters::fair::{Fairness, SEATS};
use crate::filters::record::Audit;
use crate::health::Check;
use crate::metrics::{Metrics, Source};
use crate::openapi::OpenApi;
use crate::paths::Extra;
use crate::tls::{self, Identity, Peer, Tls};

/// How long a caller may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests may go on once the server stops.
const GRACE: Duration = Duration::from_millis(700);
/// How long to leave callers alone when the system has no more files for us.
const EXHAUSTED: Duration = Duration::from_millis(50);
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 1000;
/// What one HTTP/2 stream may hold ready for a slow reader.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// How often a silent HTTP/2 connection is asked whether it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Where the table of kinds is found.
pub type Table = Box<dyn Fn() -> Arc<Kinds> + Send + Sync>;

/// What a server is made of.
pub struct Config {
    /// The API itself.
    pub serve: Arc<dyn Serve>,
    /// The kinds that are served now. A table never changes; another one may take its place.
    pub kinds: Table,
    pub authenticate: Box<dyn Authenticate>,
    pub authorize: Box<dyn Authorize>,
    /// Who signs the tokens of service accounts; others verify them by what is published of it.
    pub issuer: Option<Arc<Issuer>>,
    pub clock: Arc<dyn Clock>,
    pub tls: Identity,
    /// The audit log, if one is kept.
    pub audit: Option<Audit>,
    /// How to reach where things run.
    pub connect: Box<dyn Connect>,
    /// The servers behind this one.
    pub aggregate: Arc<Aggregator>,
    pub checks: Vec<Check>,
    /// Whoever has figures for `/metrics` besides the server itself.
    pub sources: Vec<Box<dyn Source>>,
    /// Paths of this program's own.
    pub extras: Vec<Extra>,
}

/// A server at work. It is boxed here because the body of an `async fn` is compiled by the crate that awaits it.
pub type Serving = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A server that has its port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Tls,
    shared: Arc<Shared>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Tls(#[from] tls::Error),
}

/// What all connections share.
pub(crate) struct Shared {
    pub serve: Arc<dyn Serve>,
    pub kinds: Table,
    pub authenticate: Box<dyn Authenticate>,
    pub authorize: Box<dyn Authorize>,
    pub issuer: Option<Arc<Issuer>>,
    pub clock: Arc<dyn Clock>,
    pub audit: Option<Arc<Audit>>,
    pub connect: Box<dyn Connect>,
    pub aggregate: Arc<Aggregator>,
    pub checks: Vec<Check>,
    pub sources: Vec<Box<dyn Source>>,
    pub extras: Vec<Extra>,
    pub metrics: Metrics,
    pub fairness: Arc<Fairness>,
    pub marks: Marks,
    pub ids: Ids,
    pub discovery: Discovery,
    pub openapi: OpenApi,
    /// Cancelled when the server stops: watches end, connections take no more requests.
    pub stop: CancellationToken,
    /// The requests of HTTP/2 connections.
    requests: TaskTracker,
    address: SocketAddr,
}

// === impl Server ===

impl Server {
    /// Takes the port. Nothing is answered before [`Server::run`].
    pub async fn bind(config: Config, address: SocketAddr) -> Result<Self, Error> {
        let tls = Tls::new(config.tls)?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| Error::Listen { address, source })?;
        let address = listener
            .local_addr()
            .map_err(|source| Error::Listen { address, source })?;
        let shared = Shared {
            serve: config.serve,
            kinds: config.kinds,
            authenticate: config.authenticate,
            authorize: config.authorize,
            issuer: config.issuer,
            clock: config.clock,
            audit: config.audit.map(Arc::new),
            connect: config.connect,
            aggregate: config.aggregate,
            checks: config.checks,
            sources: config.sources,
            extras: config.extras,
            metrics: Metrics::default(),
            fairness: Fairness::new(SEATS),
            marks: Marks::default(),
            ids: Ids::default(),
            discovery: Discovery::default(),
            openapi: OpenApi::default(),
            stop: CancellationToken::new(),
            requests: TaskTracker::new(),
            address,
        };
        Ok(Self {
            listener,
            tls,
            shared: Arc::new(shared),
        })
    }

    /// Where the server listens; the port is a real one even if any was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// Serves until told to stop, then ends watches and lets other requests finish for a moment.
    pub fn run(self, stop: CancellationToken) -> Serving {
        Box::pin(self.serve(stop))
    }

    async fn serve(self, stop: CancellationToken) -> Result<(), Error> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => self.accepted(accepted, &mut connections).await,
            }
        }
        drop(self.listener);
        self.shared.stop.cancel();
        self.shared.requests.close();
        let finished = async {
            while connections.join_next().await.is_some() {}
            self.shared.requests.wait().await;
        };
        tokio::select! {
            () = finished => {}
            () = self.shared.clock.sleep(GRACE) => {}
        }
        connections.shutdown().await;
        Ok(())
    }

    async fn accepted(&self, accepted: io::Result<(TcpStream, SocketAddr)>, connections: &mut JoinSet<()>) {
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(self.shared.clone(), self.tls.clone(), stream));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                self.shared.clock.sleep(EXHAUSTED).await;
            }
        }
    }
}

/// Serves one connection until it ends.
async fn connection(shared: Arc<Shared>, tls: Tls, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let address = stream.peer_addr().ok();
    let handshake = TlsAcceptor::from(tls.config.clone()).accept(stream);
    let stream = tokio::select! {
        () = shared.stop.cancelled() => return,
        () = shared.clock.sleep(HANDSHAKE) => return,
        shaken = handshake => match shaken {
            Ok(stream) => stream,
            Err(reason) => {
                shared.metrics.failed_handshakes.fetch_add(1, Ordering::Relaxed);
                return tracing::debug!(%reason, "handshake failed");
            }
        },
    };
    let session = stream.get_ref().1;
    let peer = Arc::new(Peer {
        address,
        ..tls.peer(session.peer_certificates(), shared.clock.now())
    });
    let ended = match session.alpn_protocol() {
        Some(b"h2") => speak_http2(shared, peer, stream).await,
        _ => speak_http1(shared, peer, stream).await,
    };
    if let Err(reason) = ended {
        tracing::debug!(%reason, "connection ended early");
    }
}

async fn speak_http1(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let stop = shared.stop.clone();
    let service = service_fn(|request| respond(shared.clone(), peer.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection.with_upgrades());
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

async fn speak_http2(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let stop = shared.stop.clone();
    let requests = Requests(shared.requests.clone());
    let service = service_fn(|request| respond(shared.clone(), peer.clone(), request));
    let connection = http2::Builder::new(requests)
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

async fn respond(
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> Result<http::Response<crate::Body>, Infallible> {
    Ok(chain::answer(&shared, &peer, request).await)
}

/// Runs the requests of HTTP/2 connections where the server can wait for them.
#[derive(Debug, Clone)]
struct Requests(TaskTracker);

impl<F> hyper::rt::Executor<F> for Requests
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, request: F) {
        self.0.spawn(request);
    }
}

// === impl Shared ===

impl Shared {
    /// Where the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where that runs which goes on after a request is answered.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.requests.clone()
    }

    /// Runs what goes on after a request is answered, where the server can wait for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.requests.spawn(task);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("kinds", &(self.kinds)().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
