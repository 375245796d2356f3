//! Connections: made when needed, shared where HTTP/2 allows it, kept for the next request where it does not.

use std::fmt;
use std::future::Future;
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
use super::{Error, trust};
use crate::kubeconfig::Connection;

type Message = Request<Full<Bytes>>;

/// Makes connections to one server.
pub(crate) struct Connector {
    host: String,
    port: u16,
    /// Absent for a server without TLS.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    proxy: Option<Proxy>,
    pool: Mutex<Pool>,
    children: Children,
}

/// Connections that can take a request.
#[derive(Default)]
struct Pool {
    shared: Option<http2::SendRequest<Full<Bytes>>>,
    /// Only those whose last answer was read to its end.
    idle: Vec<http1::SendRequest<Full<Bytes>>>,
}

/// A connection for one request.
enum Line {
    Shared(http2::SendRequest<Full<Bytes>>),
    Own(http1::SendRequest<Full<Bytes>>),
}

/// An answer, and the connection it comes by. It must be kept while the body is read.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) lease: Lease,
}

/// Gives the connection back for the next request, if it is told that the answer was read to its end.
pub(crate) struct Lease {
    own: Option<http1::SendRequest<Full<Bytes>>>,
    connector: Arc<Connector>,
}

/// The tasks that drive the connections. They end with the connector.
#[derive(Default)]
struct Children(Arc<Mutex<JoinSet<()>>>);

/// Starts more such tasks, from within one of them, while the connector lives.
#[derive(Clone)]
struct Nursery(Weak<Mutex<JoinSet<()>>>);

/// A connection over which nothing came for so long is asked for a sign of life, and given up without one.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
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
                Some((TlsConnector::from(Arc::new(trust::config(connection)?)), name))
            }
        };
        Ok(Self {
            port: uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 }),
            host,
            tls,
            proxy: connection.proxy.as_deref().map(Proxy::parse).transpose()?,
            pool: Mutex::default(),
            children: Children::default(),
        })
    }

    /// Sends a request over a connection that is there, or else over a new one.
    pub(crate) async fn send(self: &Arc<Self>, message: Message) -> Result<Answer, Status> {
        if let Some(line) = self.take() {
            let is_read = message.method() == Method::GET;
            match line.send(message.clone(), self).await {
                // The server had closed it: the request was not sent, or may be sent twice.
                Err(error) if error.is_canceled() || error.is_closed() || is_read => {}
                sent => return sent.map_err(|error| self.unreachable(&error)),
            }
        }
        let line = self.connect().await.map_err(|error| self.unreachable(&*error))?;
        let sent = line.send(message, self).await;
        sent.map_err(|error| self.unreachable(&error))
    }

    /// An answer that came by somebody else's connection.
    pub(crate) fn carried(self: &Arc<Self>, response: Response<Incoming>) -> Answer {
        let lease = Lease {
            own: None,
            connector: self.clone(),
        };
        Answer { response, lease }
    }

    fn take(&self) -> Option<Line> {
        let mut pool = self.pool.lock();
        if let Some(shared) = pool.shared.as_ref().filter(|shared| !shared.is_closed()) {
            return Some(Line::Shared(shared.clone()));
        }
        pool.shared = None;
        while let Some(own) = pool.idle.pop() {
            if own.is_ready() {
                return Some(Line::Own(own));
            }
        }
        None
    }

    async fn connect(&self) -> Result<Line, Box<dyn std::error::Error + Send + Sync>> {
        let stream = match &self.proxy {
            Some(proxy) => proxy.tunnel(&self.host, self.port).await?,
            None => TcpStream::connect((self.host.as_str(), self.port)).await?,
        };
        stream.set_nodelay(true)?;
        let Some((tls, name)) = &self.tls else {
            return Ok(self.speak_http1(stream).await?);
        };
        let stream = tls.connect(name.clone(), stream).await?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Ok(self.speak_http2(stream).await?),
            _ => Ok(self.speak_http1(stream).await?),
        }
    }

    async fn speak_http1<S>(&self, stream: S) -> hyper::Result<Line>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        self.children.nursery().execute(drive(connection));
        Ok(Line::Own(sender))
    }

    async fn speak_http2<S>(&self, stream: S) -> hyper::Result<Line>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http2::Builder::new(self.children.nursery())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .adaptive_window(true)
            .handshake(TokioIo::new(stream))
            .await?;
        self.children.nursery().execute(drive(connection));
        self.pool.lock().shared = Some(sender.clone());
        Ok(Line::Shared(sender))
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

// === impl Line ===

impl Line {
    async fn send(self, message: Message, connector: &Arc<Connector>) -> hyper::Result<Answer> {
        let connector = connector.clone();
        let (response, own) = match self {
            Self::Shared(mut sender) => (sender.send_request(message).await?, None),
            Self::Own(mut sender) => {
                let message = with_host(message);
                (sender.send_request(message).await?, Some(sender))
            }
        };
        let lease = Lease { own, connector };
        Ok(Answer { response, lease })
    }
}

// === impl Lease ===

impl Lease {
    /// The answer was read to its end.
    pub(crate) async fn give_back(self) {
        let Some(mut own) = self.own else {
            return;
        };
        // The driver of the connection has to notice the end, too.
        if own.ready().await.is_ok() {
            let mut pool = self.connector.pool.lock();
            if pool.idle.len() < IDLE_CONNECTIONS {
                pool.idle.push(own);
            }
        }
    }
}

// === impl Children ===

impl Children {
    fn nursery(&self) -> Nursery {
        Nursery(Arc::downgrade(&self.0))
    }
}

// === impl Nursery ===

impl<F> Executor<F> for Nursery
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        let Some(children) = self.0.upgrade() else {
            return;
        };
        let mut children = children.lock();
        while children.try_join_next().is_some() {}
        children.spawn(async move {
            future.await;
        });
    }
}

/// Runs a connection to its end. What goes wrong is told to the request that it goes wrong for.
async fn drive(connection: impl Future<Output = hyper::Result<()>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection broke");
    }
}

/// HTTP/1.1 has the host in a header and the path alone in its first line.
fn with_host(mut message: Message) -> Message {
    let uri = message.uri().clone();
    if let Some(host) = uri
        .authority()
        .and_then(|authority| authority.as_str().parse().ok())
    {
        message.headers_mut().insert(::http::header::HOST, host);
    }
    if let Some(path) = uri.path_and_query().and_then(|path| path.as_str().parse().ok()) {
        *message.uri_mut() = path;
    }
    message
}
