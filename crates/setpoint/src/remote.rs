//! A running server, reached by a kubeconfig.

use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use setpoint_client::kubeconfig::Connection;
use setpoint_client::{Http, Kubeconfig};

/// The server that a kubeconfig names: the one given, or else the one kubectl would use.
pub(crate) fn connection(kubeconfig: Option<&Path>) -> Result<Connection> {
    let paths = match kubeconfig {
        Some(path) => vec![path.to_owned()],
        None => Kubeconfig::paths(
            std::env::var_os("KUBECONFIG").as_deref(),
            std::env::var_os("HOME").as_deref().map(Path::new),
        ),
    };
    Ok(Kubeconfig::load(&paths)?.connection(None)?)
}

/// The answer to a GET of a path that is no resource.
pub(crate) async fn get(connection: &Connection, path: &str) -> Result<Bytes> {
    Ok(Http::new(connection)?.get(path).await?)
}
