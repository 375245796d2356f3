//! Connections: requests over HTTP/1.1, and the stream that one of them may become.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use setpoint_api::Key;
use setpoint_streaming::ByteStream;

use super::agent_api::AgentApi;
use super::authorization::Access;
use super::body::Body;
use super::pod_view::PodView;
use super::router;

/// A connection that sends no request header in this time is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The API of one node.
#[derive(Debug, Clone)]
pub struct Server {
    /// The agent of the node.
    pub agent: Arc<dyn AgentApi>,
    /// The name of the node.
    pub node: String,
}

impl Server {
    pub(super) fn find_pod(&self, namespace: &str, name: &str) -> Option<PodView> {
        let pod = self.agent.find_pod(&self.node, &Key::new(namespace, name))?;
        setpoint_api::json::from_slice(pod.json()).ok()
    }
}

/// A response, and what runs on the connection after an upgrade.
pub(super) struct Reply {
    pub(super) response: Response<Body>,
    pub(super) stream: Option<BoxFuture<'static, ()>>,
}

impl Reply {
    pub(super) fn upgrade(headers: HeaderMap, stream: BoxFuture<'static, ()>) -> Self {
        let mut response = Response::new(Body::Full(None));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = headers;
        Self {
            response,
            stream: Some(stream),
        }
    }
}

impl From<Response<Body>> for Reply {
    fn from(response: Response<Body>) -> Self {
        Self {
            response,
            stream: None,
        }
    }
}

/// Serves one connection until it is closed. Every request is checked by `access`.
pub async fn serve(server: Server, access: Access, connection: impl ByteStream + 'static) {
    let stream = Mutex::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        let (server, access, stream) = (&server, &access, &stream);
        async move {
            let reply = router::handle(server, access, request).await;
            *stream.lock() = reply.stream;
            Ok::<_, Infallible>(reply.response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(connection), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "connection closed with an error");
    }
    let stream = stream.lock().take();
    if let Some(stream) = stream {
        stream.await;
    }
}

/// The connection after its upgrade.
pub(super) async fn upgraded(upgrade: OnUpgrade) -> Option<Box<dyn ByteStream>> {
    match upgrade.await {
        Ok(connection) => Some(Box::new(TokioIo::new(connection))),
        Err(error) => {
            tracing::debug!(%error, "connection was not upgraded");
            None
        }
    }
}
