//! Connection pool to one aggregated API server or webhook, with TLS as its APIService or its `clientConfig` specifies.
//! A connection whose response was read to the end is reused, unless it has been idle for long: its server may be gone
//! without having closed it, and a request on it would wait until its timeout.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use setpoint_api::Clock;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

use super::{ConnectionTasks, client_tls};
use crate::body::ByteStream;
use crate::connect::{BackendAddress, dial_error};
use crate::webhook_client::Proxy;

/// A request to a remote: with the client's body, streamed, or with a body of ours.
pub(crate) type OutgoingRequest = Request<Either<Incoming, Full<Bytes>>>;

/// Extension of a request to a Service by its name: the Host header, whichever backend gets the request.
#[derive(Debug, Clone)]
pub(crate) struct FixedHost(pub(crate) String);

type Sender = SendRequest<Either<Incoming, Full<Bytes>>>;

/// Maximum number of idle connections per remote.
const MAX_IDLE_CONNECTIONS: usize = 8;

/// How long an idle connection may be reused, as in Kubernetes' client.
const IDLE_TIMEOUT: SignedDuration = SignedDuration::from_secs(90);

/// Connection pool to one remote.
pub(crate) struct ConnectionPool {
    tls: Result<(TlsConnector, ServerName<'static>), String>,
    proxy: Option<Proxy>,
    idle: Mutex<Vec<IdleConnection>>,
    clock: Arc<dyn Clock>,
    tasks: ConnectionTasks,
}

/// A connection without a request.
struct IdleConnection {
    backend: BackendAddress,
    sender: Sender,
    since: Timestamp,
}

/// A response body. Its connection returns to the pool if the body was read to the end.
pub(crate) struct PooledBody {
    body: Incoming,
    /// Whether the end was polled. A body of known length is not polled past its last byte.
    ended: bool,
    lease: Option<Lease>,
}

struct Lease {
    sender: Sender,
    backend: BackendAddress,
    pool: Arc<ConnectionPool>,
}

// === impl ConnectionPool ===

impl ConnectionPool {
    /// A pool without connections, to a server that has a certificate for this name.
    pub(crate) fn new(
        tls: Result<ClientConfig, String>,
        name: String,
        (clock, tasks): (Arc<dyn Clock>, ConnectionTasks),
    ) -> Self {
        let name = ServerName::try_from(name).map_err(|error| error.to_string());
        Self {
            tls: tls.and_then(|tls| Ok((TlsConnector::from(Arc::new(tls)), name?))),
            proxy: None,
            idle: Mutex::default(),
            clock,
            tasks,
        }
    }

    /// The same pool, whose connections go through a proxy.
    pub(crate) fn with_proxy(self, proxy: Proxy) -> Self {
        Self {
            proxy: Some(proxy),
            ..self
        }
    }

    /// Sends a request over an idle connection, or else a new one.
    pub(crate) async fn send(
        self: &Arc<Self>,
        backend: BackendAddress,
        mut request: OutgoingRequest,
    ) -> io::Result<Response<PooledBody>> {
        while let Some(mut sender) = self.take(&backend) {
            match sender.try_send_request(with_host(request, &backend)).await {
                Ok(response) => return Ok(self.pooled_response(response, sender, backend)),
                // The server had closed the connection, and nothing was sent.
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(io::Error::other(failed.into_error())),
                },
            }
        }
        let mut sender = self.connect(&backend).await?;
        let response = sender.send_request(with_host(request, &backend)).await;
        let response = response.map_err(io::Error::other)?;
        Ok(self.pooled_response(response, sender, backend))
    }

    /// Sends a request over a connection of its own, which ends with the response.
    pub(crate) async fn send_once(
        &self,
        backend: &BackendAddress,
        request: OutgoingRequest,
    ) -> io::Result<Response<Incoming>> {
        let mut sender = self.connect(backend).await?;
        let response = sender.send_request(with_host(request, backend)).await;
        response.map_err(io::Error::other)
    }

    fn pooled_response(
        self: &Arc<Self>,
        response: Response<Incoming>,
        sender: Sender,
        backend: BackendAddress,
    ) -> Response<PooledBody> {
        let pool = self.clone();
        response.map(|body| PooledBody {
            body,
            ended: false,
            lease: Some(Lease {
                sender,
                backend,
                pool,
            }),
        })
    }

    fn take(&self, backend: &BackendAddress) -> Option<Sender> {
        let now = self.clock.now();
        let mut idle = self.idle.lock();
        idle.retain(|one| one.sender.is_ready() && now.duration_since(one.since) < IDLE_TIMEOUT);
        let at = idle.iter().position(|one| one.backend == *backend)?;
        Some(idle.swap_remove(at).sender)
    }

    async fn connect(&self, backend: &BackendAddress) -> io::Result<Sender> {
        let (tls, name) = self
            .tls
            .as_ref()
            .map_err(|error| io::Error::other(error.clone()))?;
        let stream = match &self.proxy {
            Some(proxy) => proxy.connect(&backend.to_string()).await?,
            None => dial(backend).await?,
        };
        stream.set_nodelay(true)?;
        let stream = tls
            .connect(name.clone(), stream)
            .await
            .map_err(|error| client_tls::certificate_error(&error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        self.tasks.spawn(async move {
            if let Err(reason) = connection.with_upgrades().await {
                tracing::debug!(%reason, "connection to an aggregated API server or webhook ended early");
            }
        });
        Ok(sender)
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool")
            .field("idle", &self.idle.lock().len())
            .finish_non_exhaustive()
    }
}

/// Connects to the first reachable IP address of a backend. The error names the first address tried.
async fn dial(backend: &BackendAddress) -> io::Result<TcpStream> {
    let no_such_host = || io::Error::other(format!("dial tcp: lookup {}: no such host", backend.host));
    let addresses = tokio::net::lookup_host((backend.host.as_str(), backend.port)).await;
    let mut first = None;
    for address in addresses.map_err(|_| no_such_host())? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let backend = BackendAddress {
                    host: address.ip().to_string(),
                    ..backend.clone()
                };
                first.get_or_insert_with(|| dial_error(&backend, &error));
            }
        }
    }
    Err(first.unwrap_or_else(no_such_host))
}

/// Sets the Host header to the address of the backend, unless the request has a [`FixedHost`].
fn with_host(mut request: OutgoingRequest, backend: &BackendAddress) -> OutgoingRequest {
    let host = match request.extensions().get::<FixedHost>() {
        Some(FixedHost(host)) => HeaderValue::try_from(host),
        None => HeaderValue::try_from(backend.to_string()),
    };
    if let Ok(host) = host {
        request.headers_mut().insert(HOST, host);
    }
    request
}

// === impl PooledBody ===

impl ByteStream for PooledBody {
    fn poll_chunk(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let frame = ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), context));
            match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
                None => {
                    self.ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(error)))),
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                Some(Ok(Err(_trailers))) => {}
            }
        }
    }
}

impl Drop for PooledBody {
    fn drop(&mut self) {
        let is_read = self.ended || http_body::Body::is_end_stream(&self.body);
        let lease = self.lease.take().filter(|_| is_read);
        if let Some(lease) = lease.filter(|_| Handle::try_current().is_ok()) {
            lease.pool.tasks.clone().spawn(lease.return_to_pool());
        }
    }
}

// === impl Lease ===

impl Lease {
    async fn return_to_pool(mut self) {
        // The connection task has to reach the end of the response, too.
        if self.sender.ready().await.is_err() {
            return;
        }
        let since = self.pool.clock.now();
        let mut idle = self.pool.idle.lock();
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(IdleConnection {
                backend: self.backend,
                sender: self.sender,
                since,
            });
        }
    }
}
