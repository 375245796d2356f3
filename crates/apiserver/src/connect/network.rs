//! Places reached over the network.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Connect, Connecting, Place, Stream};

/// Connects by TCP, and by TLS where the place asks for it.
#[derive(Clone, Default)]
pub struct Network {
    /// Who the server is to nodes and whom it trusts. Without it there are no secure places.
    tls: Option<Arc<ClientConfig>>,
}

impl Network {
    /// A network with secure places.
    pub fn with_tls(tls: Arc<ClientConfig>) -> Self {
        Self { tls: Some(tls) }
    }
}

impl Connect for Network {
    fn connect(&self, place: Place) -> Connecting {
        let tls = self.tls.clone();
        Box::pin(async move {
            let stream = TcpStream::connect((place.host.as_str(), place.port)).await;
            let stream = stream.map_err(|error| in_gos_words(&place, &error))?;
            if !place.secure {
                return Ok(Box::new(stream) as Box<dyn Stream>);
            }
            let tls =
                tls.ok_or_else(|| io::Error::other("the server has no identity that nodes would know"))?;
            let name = ServerName::try_from(place.host.clone()).map_err(io::Error::other)?;
            let stream = TlsConnector::from(tls).connect(name, stream).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Why a place was not reached, as callers know it from Kubernetes.
pub(crate) fn in_gos_words(place: &Place, error: &io::Error) -> io::Error {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    };
    io::Error::new(error.kind(), format!("dial tcp {place}: {reason}"))
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("secure", &self.tls.is_some())
            .finish()
    }
}
