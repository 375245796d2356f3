//! The HTTPS server: accepts connections, serves HTTP/1.1 or HTTP/2, and stops within a second.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderMap, Request};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use setpoint_api::{Clock, Serve, User};
use setpoint_auth::{Authenticate, Authorize, Issuer};
use setpoint_strategy::Kinds;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::aggregate::Aggregator;
use crate::chain;
use crate::connect::Connect;
use crate::discovery::Discovery;
use crate::filters::audit::Audit;
use crate::filters::audit_id::AuditIds;
use crate::filters::bodies_in_flight::BodiesInFlight;
use crate::filters::flow_control::{FlowControl, FlowControlConfig};
use crate::filters::memory::MemoryLimit;
use crate::filters::request_header::RequestHeaders;
use crate::header_budget::{HeaderBudget, MAX_HEADER_LIST_BYTES};
use crate::health::Check;
use crate::metrics::{Metrics, MetricsSource};
use crate::non_resource::CustomRoute;
use crate::openapi::OpenApi;
use crate::respond::too_many_requests;
use crate::tls::{DynamicTls, Peer, Tls};

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long requests may continue after shutdown begins.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(700);
/// Delay after a failed accept, such as when file descriptors are exhausted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Connections that wait to be accepted. The kernel lowers it to its own limit.
const LISTEN_BACKLOG: u32 = 4096;
/// Concurrent requests on one HTTP/2 connection.
const MAX_CONCURRENT_STREAMS: u32 = 1000;
/// Send buffer of one HTTP/2 stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;
/// Interval of HTTP/2 pings on an idle connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Returns the kinds served now.
pub type KindsProvider = Box<dyn Fn() -> Arc<Kinds> + Send + Sync>;

/// Configuration of a server.
pub struct Config {
    /// The API itself.
    pub serve: Arc<dyn Serve>,
    /// The kinds served now. A `Kinds` is immutable; a CRD change replaces it.
    pub kinds: KindsProvider,
    pub authenticate: Box<dyn Authenticate>,
    pub authorize: Box<dyn Authorize>,
    /// Issuer of ServiceAccount tokens, for OpenID discovery.
    pub issuer: Option<Arc<Issuer>>,
    pub clock: Arc<dyn Clock>,
    /// The certificates; they may be replaced while the server runs.
    pub tls: Arc<DynamicTls>,
    /// The headers in which authenticating proxies name the user, if there are any.
    pub request_headers: Option<RequestHeaders>,
    /// The audit log, if there is one.
    pub audit: Option<Audit>,
    /// Connects to nodes, pods and services.
    pub connect: Box<dyn Connect>,
    /// The aggregated API servers.
    pub aggregator: Arc<Aggregator>,
    /// Limits on the requests that execute at once.
    pub flow_control: FlowControlConfig,
    pub checks: Vec<Check>,
    /// Further metrics for `/metrics`.
    pub metrics_sources: Vec<Arc<dyn MetricsSource>>,
    /// Non-resource paths of the binary.
    pub custom_routes: Vec<CustomRoute>,
    /// Resident memory above which expensive requests are rejected, in bytes; zero is no limit.
    pub max_memory: u64,
}

/// Future of a running server. Boxed because the body of an `async fn` is compiled by the crate that awaits it.
pub type ServerFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A bound port. It is bound before the server is built, since the server publishes its address.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// A server bound to its port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Arc<DynamicTls>,
    shared: Arc<ServerState>,
}

/// Why a server cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// State shared by all connections.
pub(crate) struct ServerState {
    pub serve: Arc<dyn Serve>,
    pub kinds: KindsProvider,
    pub authenticate: Box<dyn Authenticate>,
    pub authorize: Box<dyn Authorize>,
    pub issuer: Option<Arc<Issuer>>,
    pub clock: Arc<dyn Clock>,
    pub request_headers: Option<RequestHeaders>,
    pub audit: Option<Arc<Audit>>,
    pub connect: Box<dyn Connect>,
    pub aggregator: Arc<Aggregator>,
    pub checks: Vec<Check>,
    pub metrics_sources: Vec<Arc<dyn MetricsSource>>,
    pub custom_routes: Vec<CustomRoute>,
    pub metrics: Metrics,
    pub memory: MemoryLimit,
    pub bodies: BodiesInFlight,
    pub flow_control: FlowControl,
    pub audit_ids: AuditIds,
    header_budget: HeaderBudget,
    pub discovery: Discovery,
    pub openapi: OpenApi,
    /// Cancelled when the server stops: watches end, connections accept no more requests.
    pub stop: CancellationToken,
    /// Requests of HTTP/2 connections, and tasks that outlive their request.
    requests: TaskTracker,
    address: SocketAddr,
}

// === impl Listener ===

impl Listener {
    /// Binds the port. Connections wait until a server runs on it.
    pub async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The bound address; if port 0 was requested, the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }
}

/// Listens on an address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

// === impl Server ===

impl Server {
    /// A server on a bound port. No connection is accepted before [`Server::run`].
    pub fn new(config: Config, listener: Listener) -> Self {
        let Listener { listener, address } = listener;
        let flow_control = FlowControl::new(config.flow_control, &config.clock);
        let shared = ServerState {
            serve: config.serve,
            kinds: config.kinds,
            authenticate: config.authenticate,
            authorize: config.authorize,
            issuer: config.issuer,
            clock: config.clock,
            request_headers: config.request_headers,
            audit: config.audit.map(Arc::new),
            connect: config.connect,
            aggregator: config.aggregator,
            checks: config.checks,
            metrics_sources: config.metrics_sources,
            custom_routes: config.custom_routes,
            metrics: Metrics::default(),
            memory: MemoryLimit::new(config.max_memory),
            bodies: BodiesInFlight::default(),
            flow_control,
            audit_ids: AuditIds::default(),
            header_budget: HeaderBudget::default(),
            discovery: Discovery::default(),
            openapi: OpenApi::default(),
            stop: CancellationToken::new(),
            requests: TaskTracker::new(),
            address,
        };
        Self {
            listener,
            tls: config.tls,
            shared: Arc::new(shared),
        }
    }

    /// The address the server listens on; if port 0 was requested, the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// Serves until stopped, then ends watches and gives other requests a grace period.
    pub fn run(self, stop: CancellationToken) -> ServerFuture {
        Box::pin(self.serve(stop))
    }

    async fn serve(self, stop: CancellationToken) -> Result<(), Error> {
        let mut connections = JoinSet::new();
        connections.spawn(follow_flow_control(self.shared.clone()));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => self.handle_accept(accepted, &mut connections).await,
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
            () = self.shared.clock.sleep(SHUTDOWN_GRACE) => {}
        }
        connections.shutdown().await;
        Ok(())
    }

    async fn handle_accept(
        &self,
        accepted: io::Result<(TcpStream, SocketAddr)>,
        connections: &mut JoinSet<()>,
    ) {
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(self.shared.clone(), self.tls.current(), stream));
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                self.shared.clock.sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

/// Keeps flow control up to date until the server stops.
async fn follow_flow_control(shared: Arc<ServerState>) {
    let (serve, stop) = (shared.serve.clone(), shared.stop.clone());
    shared.flow_control.run(serve, stop).await;
}

/// Serves one connection until it ends.
async fn connection(shared: Arc<ServerState>, tls: Tls, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let address = stream.peer_addr().ok();
    let handshake = TlsAcceptor::from(tls.config.clone()).accept(stream);
    let stream = tokio::select! {
        () = shared.stop.cancelled() => return,
        () = shared.clock.sleep(HANDSHAKE_TIMEOUT) => return,
        accepted = handshake => match accepted {
            Ok(stream) => stream,
            Err(reason) => {
                shared.metrics.failed_handshakes.fetch_add(1, Ordering::Relaxed);
                return tracing::debug!(%reason, "TLS handshake failed");
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
    shared: Arc<ServerState>,
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
    shared: Arc<ServerState>,
    peer: Arc<Peer>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let stop = shared.stop.clone();
    let requests = TrackedExecutor(shared.requests.clone());
    let service = service_fn(|request| respond(shared.clone(), peer.clone(), request));
    let connection = http2::Builder::new(requests)
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL)
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

/// Responds to a request. Headers for which there is no memory are dropped at once, before the next request of the
/// connection is read.
fn respond(
    shared: Arc<ServerState>,
    peer: Arc<Peer>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<http::Response<crate::Body>, Infallible>> {
    let reserved = shared.header_budget.reserve(&request);
    let admitted = reserved.map(|reservation| (request, reservation));
    async move {
        let Ok((request, _reservation)) = admitted else {
            return Ok(too_many_requests(1));
        };
        Ok(chain::handle(&shared, &peer, request).await)
    }
}

/// Spawns the requests of HTTP/2 connections on a tracker, so that shutdown can wait for them.
#[derive(Debug, Clone)]
struct TrackedExecutor(TaskTracker);

impl<F> hyper::rt::Executor<F> for TrackedExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, request: F) {
        self.0.spawn(request);
    }
}

// === impl ServerState ===

impl ServerState {
    /// The user that an authenticating proxy names in the request's headers.
    pub(crate) fn proxied_user(&self, peer: &Peer, headers: &HeaderMap, now: Timestamp) -> Option<Arc<User>> {
        let proxy = peer.proxy_certificate.as_ref()?;
        let headers_of_proxy = self.request_headers.as_ref().filter(|_| !peer.is_expired(now))?;
        headers_of_proxy.user(proxy, headers)
    }

    /// The address the server listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tracker of tasks that outlive their request.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.requests.clone()
    }

    /// Spawns a task that outlives its request; shutdown waits for it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.requests.spawn(task);
    }
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerState")
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
