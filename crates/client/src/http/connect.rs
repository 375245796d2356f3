//! Connections: opened on demand, shared by requests over HTTP/2, pooled over HTTP/1.1.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ::http::uri::Scheme;
use ::http::{Method, Request, Response, Uri};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls_pki_types::ServerName;
use setpoint_api::Status;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::proxy::Proxy;
use super::{Error, tls};
use crate::kubeconfig::Connection;

type HttpRequest = Request<Full<Bytes>>;

/// Opens and pools connections to one server.
pub(crate) struct Connector {
    host: String,
    port: u16,
    /// Absent for a server without TLS.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    proxy: Option<Proxy>,
    pool: Mutex<PoolState>,
    tasks: TaskSet,
}

/// Connections that can take a request.
#[derive(Default)]
struct PoolState {
    http2: Option<http2::SendRequest<Full<Bytes>>>,
    /// Only those whose last response was read to its end.
    idle_http1: Vec<http1::SendRequest<Full<Bytes>>>,
}

/// A connection for one request.
pub(super) enum PooledConnection {
    Http2(http2::SendRequest<Full<Bytes>>),
    Http1(http1::SendRequest<Full<Bytes>>),
}

/// A response and its connection, which must be kept while the body is read.
pub(crate) struct PooledResponse {
    pub(crate) response: Response<Incoming>,
    pub(crate) guard: ConnectionGuard,
}

/// Holds the connection of a response. [`ConnectionGuard::release`] returns it to the pool; dropping it closes it.
pub(crate) struct ConnectionGuard {
    http1: Option<http1::SendRequest<Full<Bytes>>>,
    connector: Arc<Connector>,
}

/// The tasks that drive the connections. They end with the connector.
#[derive(Default)]
struct TaskSet(Arc<Mutex<JoinSet<()>>>);

/// Spawns tasks into a [`TaskSet`] while it exists. Connections use it for tasks of their own.
#[derive(Clone)]
struct TaskSpawner(Weak<Mutex<JoinSet<()>>>);

/// An idle HTTP/2 connection is pinged after this, and closed without a response.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The bytes that a server may send ahead on one connection. The HTTP/2 library closes a connection with too many small frames
/// that were not read yet, and its limit is a share of this: with an adaptive window, which begins at 64 KiB, some hundred
/// small responses at once were too many for a busy process.
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// The bytes that a server may send ahead for one request, such as a watch.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const IDLE_CONNECTIONS: usize = 32;

// === impl Connector ===

impl Connector {
    pub(crate) fn new(connection: &Connection) -> Result<Self, Error> {
        let address = connection.server.clone();
        let uri: Uri = address
            .parse()
            .map_err(|source| Error::Address { address, source })?;
        let host = uri
            .host()
            .ok_or_else(|| Error::NoHost(connection.server.clone()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_plain = uri.scheme() == Some(&Scheme::HTTP);
        let tls = match is_plain {
            true => None,
            false => {
                let name = connection.server_name.clone().unwrap_or_else(|| host.clone());
                let name =
                    ServerName::try_from(name).map_err(|_| Error::NoHost(connection.server.clone()))?;
                Some((
                    TlsConnector::from(Arc::new(tls::client_config(connection)?)),
                    name,
                ))
            }
        };
        Ok(Self {
            port: uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 }),
            host,
            tls,
            proxy: connection.proxy.as_deref().map(Proxy::parse).transpose()?,
            pool: Mutex::default(),
            tasks: TaskSet::default(),
        })
    }

    /// Sends a request over a pooled connection, or else over a new one.
    pub(crate) async fn send(self: &Arc<Self>, request: HttpRequest) -> Result<PooledResponse, Status> {
        if let Some(connection) = self.take() {
            let is_read = request.method() == Method::GET;
            match connection.send(request.clone(), self).await {
                // The server had closed the connection: the request was not sent, or is safe to send again.
                Err(error) if error.is_canceled() || error.is_closed() || is_read => {}
                response => return response.map_err(|error| self.unreachable(&error)),
            }
        }
        let connection = self.connect().await.map_err(|error| self.unreachable(&*error))?;
        let response = connection.send(request, self).await;
        response.map_err(|error| self.unreachable(&error))
    }

    /// Sends a request that upgrades its connection, over a new connection with HTTP/1.1.
    pub(crate) async fn send_upgrade(&self, request: HttpRequest) -> Result<Response<Incoming>, Status> {
        let stream = self.open().await.map_err(|error| self.unreachable(&error))?;
        let response = match &self.tls {
            None => self.send_upgrade_over(stream, request).await,
            Some((tls, name)) => {
                let mut config = tls.config().as_ref().clone();
                config.alpn_protocols = vec![b"http/1.1".to_vec()];
                let stream = TlsConnector::from(Arc::new(config)).connect(name.clone(), stream);
                let stream = stream.await.map_err(|error| self.unreachable(&error))?;
                self.send_upgrade_over(stream, request).await
            }
        };
        response.map_err(|error| self.unreachable(&error))
    }

    async fn send_upgrade_over<S>(&self, stream: S, request: HttpRequest) -> hyper::Result<Response<Incoming>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        self.tasks.spawner().execute(drive(connection.with_upgrades()));
        sender.send_request(with_host(request)).await
    }

    /// A response from a custom transport.
    pub(crate) fn unpooled(self: &Arc<Self>, response: Response<Incoming>) -> PooledResponse {
        let guard = ConnectionGuard {
            http1: None,
            connector: self.clone(),
        };
        PooledResponse { response, guard }
    }

    fn take(&self) -> Option<PooledConnection> {
        let mut pool = self.pool.lock();
        if let Some(http2) = pool.http2.as_ref().filter(|http2| !http2.is_closed()) {
            return Some(PooledConnection::Http2(http2.clone()));
        }
        pool.http2 = None;
        while let Some(http1) = pool.idle_http1.pop() {
            if http1.is_ready() {
                return Some(PooledConnection::Http1(http1));
            }
        }
        None
    }

    async fn connect(&self) -> Result<PooledConnection, Box<dyn std::error::Error + Send + Sync>> {
        let stream = self.open().await?;
        let Some((tls, name)) = &self.tls else {
            return Ok(self.handshake_http1(stream).await?);
        };
        let stream = tls.connect(name.clone(), stream).await?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Ok(self.handshake_http2(stream).await?),
            _ => Ok(self.handshake_http1(stream).await?),
        }
    }

    async fn open(&self) -> io::Result<TcpStream> {
        let stream = match &self.proxy {
            Some(proxy) => proxy.tunnel(&self.host, self.port).await?,
            None => TcpStream::connect((self.host.as_str(), self.port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The certificate chain that the server presents, in DER; empty if it serves without TLS.
    pub(crate) async fn served_certificates(&self) -> io::Result<Vec<Vec<u8>>> {
        let Some((tls, name)) = &self.tls else {
            return Ok(Vec::new());
        };
        let stream = tls.connect(name.clone(), self.open().await?).await?;
        let presented = stream.get_ref().1.peer_certificates().unwrap_or_default();
        Ok(presented.iter().map(|der| der.to_vec()).collect())
    }

    async fn handshake_http1<S>(&self, stream: S) -> hyper::Result<PooledConnection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        self.tasks.spawner().execute(drive(connection));
        Ok(PooledConnection::Http1(sender))
    }

    pub(super) async fn handshake_http2<S>(&self, stream: S) -> hyper::Result<PooledConnection>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(self.tasks.spawner())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        self.tasks.spawner().execute(drive(connection));
        self.pool.lock().http2 = Some(sender.clone());
        Ok(PooledConnection::Http2(sender))
    }

    fn unreachable(&self, error: &dyn std::error::Error) -> Status {
        let mut message = format!("cannot reach {}:{}: {error}", self.host, self.port);
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Status::unavailable(message)
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({}:{})", self.host, self.port)
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    async fn send(self, request: HttpRequest, connector: &Arc<Connector>) -> hyper::Result<PooledResponse> {
        let connector = connector.clone();
        let (response, http1) = match self {
            Self::Http2(mut sender) => (sender.send_request(request).await?, None),
            Self::Http1(mut sender) => {
                let request = with_host(request);
                (sender.send_request(request).await?, Some(sender))
            }
        };
        let guard = ConnectionGuard { http1, connector };
        Ok(PooledResponse { response, guard })
    }
}

// === impl ConnectionGuard ===

impl ConnectionGuard {
    /// Returns the connection to the pool. The response must have been read to its end.
    pub(crate) async fn release(self) {
        let Some(mut http1) = self.http1 else {
            return;
        };
        // The task of the connection has to see the end, too.
        if http1.ready().await.is_ok() {
            let mut pool = self.connector.pool.lock();
            if pool.idle_http1.len() < IDLE_CONNECTIONS {
                pool.idle_http1.push(http1);
            }
        }
    }
}

// === impl TaskSet ===

impl TaskSet {
    fn spawner(&self) -> TaskSpawner {
        TaskSpawner(Arc::downgrade(&self.0))
    }
}

// === impl TaskSpawner ===

impl<F> Executor<F> for TaskSpawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let Some(tasks) = self.0.upgrade() else {
            return;
        };
        let mut tasks = tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            future.await;
        });
    }
}

/// Drives a connection to its end. Its errors are returned by the requests on it.
async fn drive(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection error");
    }
}

/// HTTP/1.1 has the host in a header, and only the path in the request line.
fn with_host(mut request: HttpRequest) -> HttpRequest {
    let uri = request.uri().clone();
    if let Some(host) = uri
        .authority()
        .and_then(|authority| authority.as_str().parse().ok())
    {
        request.headers_mut().insert(::http::header::HOST, host);
    }
    if let Some(path) = uri.path_and_query().and_then(|path| path.as_str().parse().ok()) {
        *request.uri_mut() = path;
    }
    request
}
