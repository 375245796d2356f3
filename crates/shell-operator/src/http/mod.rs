//! HTTP servers of the operator: metrics and health on a port, debug commands on a unix socket.

mod client;
mod debug;

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use setpoint_api::Clock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::operator::{Error, Shared};

pub(crate) use client::request;

/// Further connections wait: Prometheus, probes and the debug commands need few.
const MAX_CONNECTIONS: usize = 64;
/// A connection that sends no complete request header in this time is closed, so that slow clients do not hold all of them.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection is closed after this time, whatever it does: a client may also read its response slowly.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(600);
/// After a failed accept, which happens when the process has too many files open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A response: its status and its text.
type Reply = (StatusCode, String);

/// Responds to a method and a path.
type ReplyFn = dyn Fn(&Method, &str) -> Reply + Send + Sync;

/// A connection of either kind of listener.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A port or a unix socket.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Binds the addresses of the options and serves them.
pub(crate) async fn spawn_servers(
    shared: &Arc<Shared>,
    running: &mut JoinSet<Result<(), Error>>,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let failed = |address: String| move |source| Error::Listen { address, source };
    if let Some(address) = shared.options.listen {
        let listener = TcpListener::bind(address)
            .await
            .map_err(failed(address.to_string()))?;
        let (shared, clock, stop) = (shared.clone(), shared.clock().clone(), stop.clone());
        running.spawn(async move {
            let reply = move |method: &Method, path: &str| public(&shared, method, path);
            serve(Listener::Tcp(listener), (&clock, &stop), reply).await;
            Ok(())
        });
    }
    if let Some(path) = &shared.options.debug_socket {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed(path.display().to_string()))?;
        }
        // A socket of a process that has ended.
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path).map_err(failed(path.display().to_string()))?;
        let (shared, clock, stop, path) =
            (shared.clone(), shared.clock().clone(), stop.clone(), path.clone());
        running.spawn(async move {
            let reply = move |method: &Method, path: &str| debug::reply(&shared, method, path);
            serve(Listener::Unix(listener), (&clock, &stop), reply).await;
            let _ = fs::remove_file(path);
            Ok(())
        });
    }
    Ok(())
}

fn public(shared: &Shared, _: &Method, path: &str) -> Reply {
    match path {
        "/metrics" => (StatusCode::OK, shared.metrics.to_text()),
        "/metrics/hooks" => (StatusCode::OK, shared.hook_metrics.to_text()),
        "/healthz" | "/readyz" => (StatusCode::OK, "ok".to_owned()),
        "/" => (
            StatusCode::OK,
            "Shell operator: /metrics, /metrics/hooks, /healthz\n".to_owned(),
        ),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

/// Accepts connections and serves their requests until stopped.
async fn serve(
    listener: Listener,
    (clock, stop): (&Arc<dyn Clock>, &CancellationToken),
    reply: impl Fn(&Method, &str) -> Reply + Send + Sync + 'static,
) {
    let reply: Arc<ReplyFn> = Arc::new(reply);
    let mut connections = JoinSet::new();
    loop {
        let may_accept = connections.len() < MAX_CONNECTIONS;
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if may_accept => match accepted {
                Ok(stream) => {
                    connections.spawn(serve_connection(stream, reply.clone(), clock.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    clock.sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
}

async fn serve_connection(stream: Box<dyn Stream>, reply: Arc<ReplyFn>, clock: Arc<dyn Clock>) {
    let service = service_fn(|request: Request<Incoming>| {
        let uri = request.uri();
        let path = uri.path_and_query().map_or(uri.path(), |path| path.as_str());
        let (status, text) = reply(request.method(), path);
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    tokio::select! {
        served = server.serve_connection(TokioIo::new(stream), service) => {
            if let Err(error) = served {
                tracing::debug!(%error, "connection closed with an error");
            }
        }
        () = clock.sleep(MAX_CONNECTION_AGE) => tracing::debug!("connection closed: it is too old"),
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::SystemClock;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Sends a request to a server whose responses are large.
    async fn connect(request: &[u8]) -> (DuplexStream, JoinSet<()>) {
        let (mut client, server) = duplex(1024);
        let reply: Arc<ReplyFn> = Arc::new(|_: &Method, _: &str| (StatusCode::OK, "x".repeat(100_000)));
        let mut running = JoinSet::new();
        running.spawn(serve_connection(
            Box::new(server),
            reply,
            Arc::new(SystemClock::new()),
        ));
        client.write_all(request).await.unwrap();
        (client, running)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_ends_its_request_header_is_disconnected() {
        let (mut client, mut running) = connect(b"GET /metrics HTTP/1.1\r\nHost: a").await;
        running.join_next().await.unwrap().unwrap();
        let mut response = Vec::new();
        client.read_to_end(&mut response).await.unwrap();
        assert!(!response.starts_with(b"HTTP/1.1 200"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_its_response_is_disconnected() {
        let (_client, mut running) = connect(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
        running.join_next().await.unwrap().unwrap();
    }
}
