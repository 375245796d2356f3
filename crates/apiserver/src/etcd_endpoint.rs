//! [`EtcdEndpoint`]: the client URLs of the process that test suites start as `etcd`. Plain HTTP, without authentication:
//! health checks, the version, and the path of the data directory, which only its owner can open.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use setpoint_api::Clock;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::serve::{Error, listen};

/// The path whose response is the path of the data directory.
pub const DATA_DIR_PATH: &str = "/setpoint/data-dir";
/// The version of etcd that Kubernetes 1.37 is released with.
pub const VERSION: &str = "3.7.0";

/// Further connections wait. A suite has one kube-apiserver and polls the health.
const MAX_CONNECTIONS: usize = 64;
/// A connection that sends no request header in this time is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a failed accept, such as when file descriptors are exhausted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The bound client URLs, and the data directory.
#[derive(Debug)]
pub struct EtcdEndpoint {
    listeners: Vec<TcpListener>,
    data_dir: Bytes,
}

impl EtcdEndpoint {
    /// Binds all addresses.
    pub async fn bind(addresses: &[SocketAddr], data_dir: &Path) -> Result<Self, Error> {
        let bind = |address: &SocketAddr| {
            let address = *address;
            listen(address).map_err(|source| Error::Listen { address, source })
        };
        Ok(Self {
            listeners: addresses.iter().map(bind).collect::<Result<_, _>>()?,
            data_dir: data_dir.as_os_str().as_encoded_bytes().to_vec().into(),
        })
    }

    /// Serves until the future is dropped. Open connections are closed then: no response takes time.
    pub async fn run(self, clock: Arc<dyn Clock>) {
        let mut servers = JoinSet::new();
        for listener in self.listeners {
            let (data_dir, clock) = (self.data_dir.clone(), clock.clone());
            servers.spawn(async move { accept(listener, &data_dir, &*clock).await });
        }
        while servers.join_next().await.is_some() {}
    }
}

async fn accept(listener: TcpListener, data_dir: &Bytes, clock: &dyn Clock) {
    let mut connections = JoinSet::new();
    loop {
        let may_accept = connections.len() < MAX_CONNECTIONS;
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if may_accept => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve_connection(stream, data_dir.clone()))),
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    clock.sleep(ACCEPT_BACKOFF).await;
                }
            },
        }
    }
}

async fn serve_connection(stream: TcpStream, data_dir: Bytes) {
    let service = service_fn(|request| {
        let response = respond(&request, &data_dir);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    if let Err(reason) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%reason, "connection ended early");
    }
}

fn respond(request: &Request<Incoming>, data_dir: &Bytes) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
    }
    match request.uri().path() {
        "/health" => json(r#"{"health":"true","reason":""}"#.to_owned()),
        "/livez" | "/readyz" => plain(StatusCode::OK, "ok\n"),
        "/version" => json(format!(
            r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}","storage":"{VERSION}"}}"#
        )),
        DATA_DIR_PATH => plain(StatusCode::OK, data_dir.clone()),
        _ => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn json(body: String) -> Response<Full<Bytes>> {
    with_type(StatusCode::OK, "application/json", body.into())
}

fn plain(code: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    with_type(code, "text/plain; charset=utf-8", body.into())
}

fn with_type(code: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
