//! The HTTPS server: accepts connections, serves HTTP/1.1 or HTTP/2, and stops within a second.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use setpoint_api::Clock;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::header_budget::{HeaderBudget, MAX_HEADER_LIST_BYTES};
use crate::request::query::Query;
use crate::respond::{self, too_many_requests};
use crate::tls::{DynamicTls, TlsClient};
use crate::view::{SHUTDOWN_GRACE, Views};
use crate::{chain, negotiate};

/// Timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
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

/// Future of a running server. Boxed because the body of an `async fn` is compiled by the crate that awaits it.
pub type ServerFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A bound port. It is bound before the server is built, since the server publishes its address.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

/// A server bound to its port.
pub struct Server {
    listener: TcpListener,
    shared: Arc<ConnectionContext>,
}

/// Why a server cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// What all connections of a server share.
struct ConnectionContext {
    views: Arc<dyn Views>,
    tls: Arc<DynamicTls>,
    clock: Arc<dyn Clock>,
    header_budget: HeaderBudget,
    /// Cancelled when the server stops: connections accept no more requests.
    stop: CancellationToken,
    /// Requests of HTTP/2 connections.
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
    /// A server of these views on a bound port. No connection is accepted before [`Server::run`].
    pub fn new(
        views: Arc<dyn Views>,
        listener: Listener,
        tls: Arc<DynamicTls>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let Listener { listener, address } = listener;
        let shared = ConnectionContext {
            views,
            tls,
            clock,
            header_budget: HeaderBudget::default(),
            stop: CancellationToken::new(),
            requests: TaskTracker::new(),
            address,
        };
        Self {
            listener,
            shared: Arc::new(shared),
        }
    }

    /// The address the server listens on; if port 0 was requested, the actual port.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// Serves until stopped, then gives requests a grace period. Watches end with their [`View`](crate::View).
    pub fn run(self, stop: CancellationToken) -> ServerFuture {
        Box::pin(self.serve(stop))
    }

    async fn serve(self, stop: CancellationToken) -> Result<(), Error> {
        let mut connections = JoinSet::new();
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
                connections.spawn(connection(self.shared.clone(), stream));
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                self.shared.clock.sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

/// Serves one connection until it ends.
async fn connection(shared: Arc<ConnectionContext>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let address = stream.peer_addr().ok();
    let handshake = TlsAcceptor::from(shared.tls.current()).accept(stream);
    let stream = tokio::select! {
        () = shared.stop.cancelled() => return,
        () = shared.clock.sleep(HANDSHAKE_TIMEOUT) => return,
        accepted = handshake => match accepted {
            Ok(stream) => stream,
            Err(reason) => {
                shared.tls.count_failed_handshake();
                return tracing::debug!(%reason, "TLS handshake failed");
            }
        },
    };
    let session = stream.get_ref().1;
    let client = Arc::new(TlsClient::new(address, session.peer_certificates()));
    let ended = match session.alpn_protocol() {
        Some(b"h2") => speak_http2(shared, client, stream).await,
        _ => speak_http1(shared, client, stream).await,
    };
    if let Err(reason) = ended {
        tracing::debug!(%reason, "connection ended early");
    }
}

async fn speak_http1(
    shared: Arc<ConnectionContext>,
    client: Arc<TlsClient>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let stop = shared.stop.clone();
    let service = service_fn(|request| respond(shared.clone(), client.clone(), request));
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
    shared: Arc<ConnectionContext>,
    client: Arc<TlsClient>,
    stream: TlsStream<TcpStream>,
) -> hyper::Result<()> {
    let stop = shared.stop.clone();
    let requests = TrackedExecutor(shared.requests.clone());
    let service = service_fn(|request| respond(shared.clone(), client.clone(), request));
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
    shared: Arc<ConnectionContext>,
    client: Arc<TlsClient>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<http::Response<crate::Body>, Infallible>> {
    let reserved = shared.header_budget.reserve(&request);
    let admitted = reserved.map(|reservation| (request, reservation));
    async move {
        let Ok((request, _reservation)) = admitted else {
            return Ok(too_many_requests(1));
        };
        Ok(route(&shared, &client, request).await)
    }
}

/// Handles a request by the view of its path, which sees the path without the prefix that names the view.
async fn route(
    shared: &ConnectionContext,
    client: &TlsClient,
    mut request: Request<Incoming>,
) -> http::Response<crate::Body> {
    let (view, prefix) = match shared.views.find(request.uri().path()) {
        Ok(found) => found,
        Err(status) => {
            let query = Query::parse(request.uri().query());
            return respond::error(negotiate::error(request.headers(), &query), &status);
        }
    };
    let begun = view.clock.now();
    let peer = client.peer(&view, begun);
    let base_path = take_prefix(request.uri_mut(), prefix);
    chain::handle(&view, &peer, &base_path, begun, request).await
}

/// Removes the prefix of this length from the path, and returns it.
fn take_prefix(uri: &mut Uri, prefix: usize) -> String {
    let Some(whole) = uri.path_and_query().filter(|_| prefix > 0) else {
        return String::new();
    };
    let (base_path, rest) = whole.as_str().split_at(prefix);
    let base_path = base_path.to_owned();
    let rest = match rest.starts_with('/') {
        true => rest.to_owned(),
        false => format!("/{rest}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = rest.parse().ok();
    *uri = Uri::from_parts(parts).unwrap_or_else(|_| Uri::from_static("/"));
    base_path
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

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.shared.address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
