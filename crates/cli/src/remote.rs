//! A running server, reached by a kubeconfig.

use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Kubeconfig};

/// The connection to the server of a kubeconfig: of the given file, else of the one that kubectl would use.
pub(crate) fn connection(kubeconfig: Option<&Path>) -> Result<Connection> {
    connection_of(kubeconfig, None)
}

/// The connection to the server of a context of a kubeconfig. Without any kubeconfig, a pod connects to its own cluster.
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

/// The response body to a GET of a non-resource path.
pub(crate) async fn get(connection: &Connection, path: &str) -> Result<Bytes> {
    Ok(Http::new(connection)?.get(path).await?)
}
