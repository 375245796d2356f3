//! TLS of the server: its serving certificates and the verification of client certificates. Both can be replaced while
//! the server runs, see [`DynamicTls`].
//!
//! A client certificate is optional. One not signed by the client CA does not fail the handshake: each request then
//! gets a 401 response that the client can read.

mod dynamic;
mod serving;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use setpoint_api::User;
use setpoint_auth::authenticate::certificate;

pub use dynamic::DynamicTls;
pub use serving::NamedCertificate;

use crate::request::options::StatusError;
use serving::ServingCertificates;

/// The serving certificates, and the CAs of client certificates.
#[derive(Debug)]
pub struct Identity {
    /// The certificate chain, leaf first, of handshakes for whose server name there is no other certificate.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
    /// The certificates for certain server names. Of several for one name, the first is served.
    pub named: Vec<NamedCertificate>,
    /// The CAs that sign client certificates of users.
    pub client_ca: Vec<CertificateDer<'static>>,
    /// The CAs that sign client certificates of authenticating proxies, which name the user in request headers.
    pub proxy_ca: Vec<CertificateDer<'static>>,
}

/// An unusable TLS configuration.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct Error(String);

/// The client of one connection.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The client's certificate, verified against the client CAs.
    pub certificate: Option<Vec<u8>>,
    /// The client's certificate, verified against the CAs of authenticating proxies.
    pub proxy_certificate: Option<Vec<u8>>,
    /// When the first of the certificates that the client presented expires.
    pub expires: Option<Timestamp>,
    /// Whether the client presented a certificate that failed verification.
    pub distrusted: bool,
    /// The client's address.
    pub address: Option<SocketAddr>,
    /// The user of the certificate; authenticated with the first request.
    pub user: OnceLock<Result<Arc<User>, StatusError>>,
}

/// TLS configuration of the server and the verifier of client certificates.
#[derive(Debug, Clone)]
pub(crate) struct Tls {
    pub config: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
    /// The verifier of authenticating proxies, if there are any.
    proxy_verifier: Option<Arc<dyn ClientCertVerifier>>,
}

// === impl Peer ===

impl Peer {
    /// Whether a certificate of the client has expired since the handshake.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires < now)
    }
}

// === impl Tls ===

impl Tls {
    pub(crate) fn new(identity: Identity) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let accepted = [identity.client_ca.as_slice(), &identity.proxy_ca].concat();
        let handshake = DeferredClientVerifier(verifier(&accepted, provider.clone())?);
        let proxy_verifier = match identity.proxy_ca.is_empty() {
            true => None,
            false => Some(verifier(&identity.proxy_ca, provider.clone())?),
        };
        let verifier = verifier(&identity.client_ca, provider.clone())?;
        let serving = ServingCertificates::new(identity.chain, identity.key, identity.named, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error(error.to_string()))?
            .with_client_cert_verifier(Arc::new(handshake))
            .with_cert_resolver(Arc::new(serving));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            verifier,
            proxy_verifier,
        })
    }

    /// Verifies the certificates that a client presented.
    pub(crate) fn peer(&self, presented: Option<&[CertificateDer<'_>]>, now: Timestamp) -> Peer {
        let Some([leaf, intermediates @ ..]) = presented else {
            return Peer::default();
        };
        let since = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(since));
        let verified = |verifier: &Arc<dyn ClientCertVerifier>| {
            let verified = verifier.verify_client_cert(leaf, intermediates, now);
            verified.map(|_| leaf.to_vec())
        };
        let proxy_certificate = self
            .proxy_verifier
            .as_ref()
            .and_then(|proxy| verified(proxy).ok());
        let user_certificate = verified(&self.verifier)
            .inspect_err(|reason| tracing::debug!(%reason, "client certificate rejected"));
        Peer {
            distrusted: user_certificate.is_err(),
            certificate: user_certificate.ok(),
            proxy_certificate,
            expires: presented.and_then(certificate::first_expiry),
            ..Peer::default()
        }
    }
}

fn verifier(
    authorities: &[CertificateDer<'static>],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority.clone())
            .map_err(|error| Error(format!("invalid client CA: {error}")))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| Error(error.to_string()))
}

/// The certificates in a PEM bundle, of which there must be one at least.
pub fn certificates_from_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| Error(error.to_string()))?;
    match all.is_empty() {
        true => Err(Error("the bundle has no certificate".to_owned())),
        false => Ok(all),
    }
}

/// Accepts every certificate in the handshake if the client proves that it holds the key. [`Tls::peer`] verifies it
/// later.
#[derive(Debug)]
struct DeferredClientVerifier(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for DeferredClientVerifier {
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
