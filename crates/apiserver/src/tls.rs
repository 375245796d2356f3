//! TLS: who this server is, and what a caller shows before its first request.
//!
//! A client certificate is optional. One that our authority did not sign does not end the handshake: the caller is then
//! refused request by request, with an answer it can read.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use setpoint_api::User;

use crate::request::options::Refused;

/// What the server shows, and whom it trusts.
#[derive(Debug)]
pub struct Identity {
    /// The serving certificate, its own first.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// Who signs the certificates of clients.
    pub authority: CertificateDer<'static>,
}

/// What cannot be served with.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct Error(String);

/// The other end of one connection.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The client's certificate, verified against our authority.
    pub certificate: Option<Vec<u8>>,
    /// Whether a certificate was shown that our authority did not sign.
    pub distrusted: bool,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// Whom the certificate names; found out with the first request.
    pub user: OnceLock<Result<Arc<User>, Refused>>,
}

/// Both sides of TLS for one server.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

// === impl Tls ===

impl Tls {
    pub(crate) fn new(identity: Identity) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(identity.authority, provider.clone())?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error(error.to_string()))?
            .with_client_cert_verifier(Arc::new(Lenient(verifier.clone())))
            .with_single_cert(identity.chain, identity.key)
            .map_err(|error| Error(error.to_string()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            verifier,
        })
    }

    /// Judges the certificates that a client showed.
    pub(crate) fn peer(&self, shown: Option<&[CertificateDer<'_>]>, now: Timestamp) -> Peer {
        let Some([own, others @ ..]) = shown else {
            return Peer::default();
        };
        let since = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(since));
        match self.verifier.verify_client_cert(own, others, now) {
            Ok(_) => Peer {
                certificate: Some(own.to_vec()),
                ..Peer::default()
            },
            Err(reason) => {
                tracing::debug!(%reason, "client certificate not trusted");
                Peer {
                    distrusted: true,
                    ..Peer::default()
                }
            }
        }
    }
}

fn verifier(
    authority: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots
        .add(authority)
        .map_err(|error| Error(format!("unusable authority: {error}")))?;
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| Error(error.to_string()))
}

/// Lets every certificate through the handshake, once its owner has proved to hold the key. [`Tls::peer`] judges it after.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
