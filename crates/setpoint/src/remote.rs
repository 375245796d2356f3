//! A running server, reached by a kubeconfig.

use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Kubeconfig};

/// The server that a kubeconfig names: the one given, or else the one kubectl would use.
pub(crate) fn connection(kubeconfig: Option<&Path>) -> Result<Connection> {
    connection_of(kubeconfig, None)
}

/// The same in a context of that kubeconfig. Without any kubeconfig, a pod talks to its own cluster.
pub(crate) fn connection_of(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Connection> {
    if kubeconfig.is_none() && context.is_none() {
        return Ok(Connection::infer()?);
    }
    let paths = match kubeconfig {
        Some(path) => vec![path.to_owned()],
        None => Kubeconfig::paths(
            std::env::var_os("KUBECONFIG").as_deref(),
            std::env::var_os("HOME").as_deref().map(Path::new),
        ),
    };
    Ok(Kubeconfig::load(&paths)?.connection(context)?)
}

/// The answer to a GET of a path that is no resource.
pub(crate) async fn get(connection: &Connection, path: &str) -> Result<Bytes> {
    Ok(Http::new(connection)?.get(path).await?)
}
