//! A small HTTP/1 server: accepts a bounded number of connections and serves requests on them until stopped.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use setpoint_api::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Further connections wait. A controller has few HTTP clients: the kubelet's probes, the API server, Prometheus.
const MAX_CONNECTIONS: usize = 64;
/// A connection that sends no request header in this time is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed accept, which happens when the process has too many files open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Accepts connections and serves each by `serve_connection`. After the stop no connection is accepted, and the open ones
/// are waited for; `serve_connection` must end soon then.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    clock: &dyn Clock,
    stop: &CancellationToken,
    serve_connection: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let may_accept = connections.len() < MAX_CONNECTIONS;
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if may_accept => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve_connection(stream))),
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    clock.sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Serves the requests of one connection, until it is closed or, after the stop, until the current request is done.
pub(crate) async fn serve_connection<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    stop: &CancellationToken,
    respond: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    let connection = server.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection closed with an error");
    }
}
