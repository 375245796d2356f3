//! The address of a server, its trusted CA, and the client's credentials.

use std::fmt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use setpoint_client::Kubeconfig;
use setpoint_client::http::{self, tls};
use setpoint_client::kubeconfig::{self, Identity};

use super::{Caller, Connection};
use crate::wire::connection::Stream;

/// The timeout of an endpoint without one of its own.
const IO_TIMEOUT: Duration = Duration::from_secs(60);

/// A server's address, with TLS configurations and token for its callers.
#[derive(Clone)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// The name in the server's certificate.
    server_name: String,
    /// With and without the owner's client certificate; absent for a server without TLS.
    tls: Option<(Arc<ClientConfig>, Arc<ClientConfig>)>,
    token: Option<String>,
    /// How long to wait for a connection, and for each read and write.
    timeout: Duration,
}

/// Why an endpoint is invalid.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
    #[error("invalid address {0:?}: expected a URL such as https://127.0.0.1:6443")]
    Address(String),
    #[error(transparent)]
    Trust(#[from] http::Error),
}

// === impl Endpoint ===

impl Endpoint {
    /// The current context of a kubeconfig.
    pub fn of_kubeconfig(path: &Path) -> Result<Self, Error> {
        Self::new(&Kubeconfig::read(path)?.connection(None)?)
    }

    /// A server by its URL. Its certificate is not verified.
    pub fn of_address(server: &str, token: Option<&str>) -> Result<Self, Error> {
        Self::new(&kubeconfig::Connection {
            server: server.trim_end_matches('/').to_owned(),
            insecure_skip_tls_verify: true,
            identity: token.map_or(Identity::Anonymous, |token| Identity::Token(token.to_owned())),
            ..kubeconfig::Connection::default()
        })
    }

    pub fn new(connection: &kubeconfig::Connection) -> Result<Self, Error> {
        let (is_tls, host, port) =
            parse_url(&connection.server).ok_or_else(|| Error::Address(connection.server.clone()))?;
        let tls = match is_tls {
            true => {
                let mut anonymous = connection.clone();
                anonymous.identity = Identity::Anonymous;
                Some((tls(connection)?, tls(&anonymous)?))
            }
            false => None,
        };
        let token = match &connection.identity {
            Identity::Token(token) => Some(format!("Bearer {token}")),
            _ => None,
        };
        Ok(Self {
            server_name: connection.server_name.clone().unwrap_or_else(|| host.clone()),
            host,
            port,
            tls,
            token,
            timeout: IO_TIMEOUT,
        })
    }

    /// The same server, with this timeout of connecting, and of each read and write.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The value of the `Host` header.
    pub fn host(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub fn connect(&self, caller: &Caller) -> io::Result<Connection> {
        let stream = self.open()?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.timeout))?;
        stream.set_write_timeout(Some(self.timeout))?;
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some((owner, anonymous)) => {
                let config = if *caller == Caller::Owner {
                    owner
                } else {
                    anonymous
                };
                let name = ServerName::try_from(self.server_name.clone()).map_err(io::Error::other)?;
                let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                Stream::Tls(Box::new(StreamOwned::new(session, stream)))
            }
        };
        let authorization = match caller {
            Caller::Owner => self.token.clone(),
            Caller::Anonymous => None,
            Caller::Header(value) => Some(value.clone()),
        };
        Ok(Connection::new(stream, self.host(), authorization))
    }

    /// Connects to the first address of the host that accepts.
    fn open(&self) -> io::Result<TcpStream> {
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Without credentials.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.host())
    }
}

/// Parses a URL into whether it uses TLS, the host and the port.
fn parse_url(server: &str) -> Option<(bool, String, u16)> {
    let (scheme, rest) = server.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (is_tls, default_port) = match scheme {
        "https" => (true, 443),
        "http" => (false, 80),
        _ => return None,
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (is_tls, host.to_owned(), port))
}

/// The TLS configuration of the connection, without ALPN: only HTTP/1.1 is supported here.
fn tls(connection: &kubeconfig::Connection) -> Result<Arc<ClientConfig>, Error> {
    let mut config = tls::client_config(connection)?;
    config.alpn_protocols.clear();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, expected: Option<(bool, &str, u16)>) {
        let expected = expected.map(|(is_tls, host, port)| (is_tls, host.to_owned(), port));
        assert_eq!(parse_url(server), expected);
    }

    #[test]
    fn an_address_has_a_scheme_a_host_and_a_port() {
        check("https://127.0.0.1:6443", Some((true, "127.0.0.1", 6443)));
        check("https://a.example/base", Some((true, "a.example", 443)));
        check("http://[::1]:80", Some((false, "::1", 80)));
        check("http://[::1]", Some((false, "::1", 80)));
        check("127.0.0.1:6443", None);
        check("https://", None);
    }
}
