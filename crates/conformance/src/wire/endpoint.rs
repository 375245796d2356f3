//! Where a server is, whom to trust there, and what to show.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use setpoint_client::Kubeconfig;
use setpoint_client::kubeconfig::{self, Identity};

use super::{Caller, Connection};
use crate::wire::connection::Stream;

/// A server that is silent for so long has lost the request.
const SILENCE: Duration = Duration::from_secs(60);

/// How to reach a server as somebody, and as nobody.
#[derive(Clone)]
pub struct Endpoint {
    host: String,
    port: u16,
    /// For the owner and for everyone else; absent for a server without TLS.
    tls: Option<(Arc<ClientConfig>, Arc<ClientConfig>)>,
    token: Option<String>,
}

/// Why a server cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
    #[error("{0:?} is no address such as https://127.0.0.1:6443")]
    Address(String),
    #[error("cannot read the {what}: {reason}")]
    Pem { what: &'static str, reason: String },
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Takes any certificate: a reference server is a neighbour on the same desk.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

// === impl Endpoint ===

impl Endpoint {
    /// The current context of a kubeconfig.
    pub fn of_kubeconfig(path: &Path) -> Result<Self, Error> {
        Self::new(&Kubeconfig::read(path)?.connection(None)?)
    }

    /// A server by its address, whose certificate nobody vouches for.
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
            parts(&connection.server).ok_or_else(|| Error::Address(connection.server.clone()))?;
        let tls = match is_tls {
            true => Some((Arc::new(owners(connection)?), Arc::new(everyones(connection)?))),
            false => None,
        };
        let token = match &connection.identity {
            Identity::Token(token) => Some(format!("Bearer {token}")),
            _ => None,
        };
        Ok(Self {
            host,
            port,
            tls,
            token,
        })
    }

    /// What stands in the `Host` header.
    pub fn host(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub fn connect(&self, caller: &Caller) -> io::Result<Connection> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let stream = match &self.tls {
            None => Stream::Plain(stream),
            Some((owner, everyone)) => {
                let config = if *caller == Caller::Owner { owner } else { everyone };
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
                Stream::Tls(Box::new(StreamOwned::new(session, stream)))
            }
        };
        let authorization = match caller {
            Caller::Owner => self.token.clone(),
            Caller::Nobody => None,
            Caller::Header(value) => Some(value.clone()),
        };
        Ok(Connection::new(stream, self.host(), authorization))
    }
}

/// Secrets do not show.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.host())
    }
}

/// Whether TLS is spoken, the host and the port.
fn parts(server: &str) -> Option<(bool, String, u16)> {
    let (scheme, rest) = server.split_once("://")?;
    let authority = rest.split('/').next()?;
    let (is_tls, usual) = match scheme {
        "https" => (true, 443),
        "http" => (false, 80),
        _ => return None,
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (is_tls, host.to_owned(), port))
}

fn owners(connection: &kubeconfig::Connection) -> Result<ClientConfig, Error> {
    let Identity::Certificate { chain, key } = &connection.identity else {
        return everyones(connection);
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unreadable("client key", error))?;
    let chain = certificates("client certificate", chain)?;
    Ok(trusting(connection)?.with_client_auth_cert(chain, key)?)
}

fn everyones(connection: &kubeconfig::Connection) -> Result<ClientConfig, Error> {
    Ok(trusting(connection)?.with_no_client_auth())
}

type Builder = rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>;

fn trusting(connection: &kubeconfig::Connection) -> Result<Builder, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    Ok(match &connection.authority {
        Some(authority) if !connection.insecure_skip_tls_verify => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("certificate authority", authority)? {
                roots.add(certificate)?;
            }
            builder.with_root_certificates(roots)
        }
        _ => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider))),
    })
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.map_err(|error| unreadable(what, error))
}

fn unreadable(what: &'static str, reason: impl ToString) -> Error {
    let reason = reason.to_string();
    Error::Pem { what, reason }
}

// === impl Anyone ===

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, expected: Option<(bool, &str, u16)>) {
        let expected = expected.map(|(is_tls, host, port)| (is_tls, host.to_owned(), port));
        assert_eq!(parts(server), expected);
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
