//! Backends reached over the network.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{BackendAddress, Connect, ConnectFuture, Connection};

/// Connects by TCP, with TLS if the backend is secure.
#[derive(Clone, Default)]
pub struct Network {
    /// Client certificate for nodes and the CAs trusted. Without it, secure backends cannot be reached.
    tls: Option<Arc<ClientConfig>>,
}

impl Network {
    /// A network that reaches secure backends.
    pub fn with_tls(tls: Arc<ClientConfig>) -> Self {
        Self { tls: Some(tls) }
    }
}

impl Connect for Network {
    fn connect(&self, backend: BackendAddress) -> ConnectFuture {
        let tls = self.tls.clone();
        Box::pin(async move {
            let stream = dial(&backend)
                .await
                .map_err(|error| dial_error(&backend, &error))?;
            if !backend.secure {
                return Ok(Box::new(stream) as Box<dyn Connection>);
            }
            let tls =
                tls.ok_or_else(|| io::Error::other("the server has no client certificate for nodes"))?;
            let name = ServerName::try_from(backend.host.clone()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(tls).connect(name, stream).await?;
            Ok(Box::new(stream) as Box<dyn Connection>)
        })
    }
}

async fn dial(backend: &BackendAddress) -> io::Result<TcpStream> {
    if backend.resolved.is_empty() {
        return TcpStream::connect((backend.host.as_str(), backend.port)).await;
    }
    let socket_address = |ip: &IpAddr| SocketAddr::new(*ip, backend.port);
    let addresses: Vec<SocketAddr> = backend.resolved.iter().map(socket_address).collect();
    TcpStream::connect(addresses.as_slice()).await
}

/// The error of a failed connect, with Go's text.
pub(crate) fn dial_error(backend: &BackendAddress, error: &io::Error) -> io::Error {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("dial tcp {backend}: {reason}"))
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("secure", &self.tls.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_resolved_backend_is_reached_at_the_resolved_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let backend = |resolved: Vec<IpAddr>| BackendAddress {
            secure: false,
            host: "name.invalid".to_owned(),
            port: listener.local_addr().unwrap().port(),
            resolved,
            node: None,
        };
        let network = Network::default();
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        assert!(network.connect(backend(vec![local])).await.is_ok());
        assert!(network.connect(backend(Vec::new())).await.is_err());
    }
}
