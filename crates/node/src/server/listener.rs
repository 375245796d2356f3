//! [`Listener`]: the node's port, with TLS.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::User;
use setpoint_client::Client;
use setpoint_x509::{Certificate, CertificateTemplate, GeneralName, Name, PrivateKey, extension, oid, pem};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::authorization::Access;
use super::connection::{Server, serve};

/// Further connections wait.
const MAX_CONNECTIONS: usize = 1000;
/// How long a client may take for its handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// After a failed accept, which happens when the process has too many files open.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long a certificate that the agent issues to itself is valid.
const SELF_SIGNED_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The certificates of a node's port, PEM.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// The serving certificate and its chain.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// The CAs of client certificates; without them only tokens authenticate a client.
    pub client_authority: Option<String>,
}

/// The port of one node.
#[derive(Debug)]
pub struct Listener {
    /// The node.
    pub server: Server,
    /// Reviews tokens and access of clients.
    pub reviews: Client,
    /// The certificates.
    pub tls: Arc<ServerConfig>,
}

/// Why the certificates of a node's port cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is not PEM, or lacks what it should have.
    #[error("invalid PEM: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// A certificate or key is not usable.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The CA bundle is not usable.
    #[error(transparent)]
    Authority(#[from] rustls::server::VerifierBuilderError),
    /// A certificate cannot be issued.
    #[error(transparent)]
    Issue(#[from] setpoint_x509::Error),
}

// === impl ServerTls ===

impl ServerTls {
    /// A certificate that the node issues to itself, as the kubelet does without other configuration.
    pub fn self_signed(node: &str, addresses: &[IpAddr], now: Timestamp) -> Result<Self, TlsError> {
        let (key, key_pem) = PrivateKey::generate()?;
        let common_name = format!("{node}@{}", now.as_second());
        let name = Name::encode(&[(oid::COMMON_NAME, common_name.as_str())]);
        let mut names = vec![GeneralName::Dns(node.to_owned())];
        let encode = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        names.extend(
            addresses
                .iter()
                .map(|address| GeneralName::Address(encode(address))),
        );
        let serial_number = now.as_nanosecond().to_be_bytes();
        let template = CertificateTemplate {
            serial_number: &serial_number,
            issuer: &name,
            subject: &name,
            public_key: &key.public_key_info(),
            not_before: now - SignedDuration::from_hours(1),
            not_after: now + SELF_SIGNED_LIFETIME,
            extensions: vec![extension::not_a_ca(), extension::subject_alt_names(&names)],
        };
        Ok(Self {
            certificate: pem::encode(pem::CERTIFICATE, &template.sign(&key)?),
            key: key_pem,
            client_authority: None,
        })
    }

    /// The TLS configuration.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let config = match &self.client_authority {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
                    roots.add(certificate?)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
            }
        };
        let mut config = config.with_single_cert(chain?, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

// === impl Listener ===

impl Listener {
    /// Accepts connections until stopped.
    pub async fn run(self, listener: TcpListener, stop: CancellationToken) {
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        loop {
            let may_accept = connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if may_accept => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(this.clone().serve(stream))),
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept a connection");
                        this.server.agent.clock().sleep(ACCEPT_RETRY_DELAY).await;
                    }
                },
            }
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let accepted = TlsAcceptor::from(self.tls.clone()).accept(stream);
        let accepted = tokio::time::timeout(HANDSHAKE_TIMEOUT, accepted).await;
        let Ok(Ok(stream)) = accepted else {
            tracing::debug!("TLS handshake of a client of the node's port failed");
            return;
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let access = Access::Remote {
            certificate: certificate.and_then(|certificate| user(certificate)),
            reviews: self.reviews.clone(),
        };
        serve(self.server.clone(), access, stream).await;
    }
}

/// The user that a verified certificate names.
fn user(certificate: &CertificateDer<'_>) -> Option<User> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let name = certificate.subject.common_names().next()?;
    let groups = certificate.subject.organizations();
    let mut groups: Vec<String> = groups.map(str::to_owned).collect();
    groups.push(User::AUTHENTICATED.to_owned());
    Some(User {
        name: name.to_owned(),
        groups,
        ..User::default()
    })
}
