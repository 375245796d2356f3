//! Endpoints: where a server is, and how a connection to it is made.

use std::{fmt, io, path::PathBuf, sync::Arc};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Address of a server.
#[derive(Clone)]
pub enum Endpoint {
    /// A socket of this machine.
    Unix(PathBuf),
    /// A host and port, with TLS if a configuration is given.
    Tcp {
        host: String,
        port: u16,
        /// Its ALPN protocols are replaced by HTTP/2.
        tls: Option<Arc<ClientConfig>>,
    },
}

/// A byte stream to a server.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Endpoint {
    /// A host and port without TLS.
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::Tcp {
            host: host.into(),
            port,
            tls: None,
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Io>> {
        match self {
            Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Self::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                match tls {
                    None => Ok(Box::new(stream)),
                    Some(config) => connect_tls(stream, host, config).await,
                }
            }
        }
    }

    /// The scheme of requests.
    pub(crate) fn scheme(&self) -> &'static str {
        match self {
            Self::Tcp { tls: Some(_), .. } => "https",
            _ => "http",
        }
    }
}

async fn connect_tls(stream: TcpStream, host: &str, config: &Arc<ClientConfig>) -> io::Result<Box<dyn Io>> {
    let mut config = ClientConfig::clone(config);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(config));
    Ok(Box::new(connector.connect(name, stream).await?))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{self}", self.scheme())
    }
}
