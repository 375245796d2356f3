//! Taking connections, so many at a time, and conversing over them in HTTP, until it is time to stop.

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

/// More at a time have to wait. Who calls a controller is a handful: a cluster's probes, its server, whoever gathers
/// figures.
const MAX_CONNECTIONS: usize = 64;
/// One who connects and says nothing is sent away.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed accept, which happens when the process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Converses with everyone who connects. After the stop nobody else is taken, and those who are there are waited for;
/// `converse` must end soon then.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    clock: &dyn Clock,
    stop: &CancellationToken,
    converse: impl Fn(TcpStream) -> F,
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
                Ok((stream, _)) => drop(connections.spawn(converse(stream))),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    clock.sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Answers requests over one connection, to its end or until a stop lets it end.
pub(crate) async fn converse<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    stop: &CancellationToken,
    answer: impl Fn(Request<Incoming>) -> F,
) where
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
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
        tracing::debug!(%error, "a connection broke off");
    }
}
