//! Taking connections, so many at a time, until it is time to stop.

use std::future::Future;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// More at a time have to wait. Who calls a controller is a handful: a cluster's probes, its server, whoever gathers
/// figures.
const MAX_CONNECTIONS: usize = 64;
/// After a failed accept, which happens when the process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Converses with everyone who connects. After the stop nobody else is taken, and those who are there are waited for;
/// `converse` must end soon then.
pub(crate) async fn accept<F>(
    listener: TcpListener,
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
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
