//! TLS of the server: its serving certificates and the verification of client certificates. Both can be replaced while
//! the server runs, see [`DynamicTls`].
//!
//! A client certificate is optional. One not signed by the client CA does not fail the handshake: each request then
//! gets a 401 response that the client can read. Which CAs are trusted depends on the view that the request is for, which
//! is not known before its path.

mod client_authorities;
mod dynamic;
mod serving;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};

use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use setpoint_api::User;

pub use client_authorities::ClientAuthorities;
pub use dynamic::DynamicTls;
pub use serving::NamedCertificate;

use crate::request::options::StatusError;
use crate::view::View;
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

/// The client of one connection: its address and the certificates that it presented.
#[derive(Debug)]
pub(crate) struct TlsClient {
    address: Option<SocketAddr>,
    presented: Vec<CertificateDer<'static>>,
    /// The client as each view that it has used sees it: views differ in the CAs that they trust.
    peers: Mutex<Vec<(Weak<View>, Arc<Peer>)>>,
}

/// The client of one connection, as one view sees it.
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

// === impl TlsClient ===

impl TlsClient {
    pub(crate) fn new(address: Option<SocketAddr>, presented: Option<&[CertificateDer<'_>]>) -> Self {
        let presented = presented.unwrap_or_default().iter();
        Self {
            address,
            presented: presented.map(|one| one.clone().into_owned()).collect(),
            peers: Mutex::default(),
        }
    }

    /// The client as this view sees it. Its certificates are verified with the first request to the view.
    pub(crate) fn peer(&self, view: &Arc<View>, now: Timestamp) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        let own = peers
            .iter()
            .find(|(known, _)| known.as_ptr() == Arc::as_ptr(view));
        if let Some((_, peer)) = own {
            return peer.clone();
        }
        let peer = Arc::new(Peer {
            address: self.address,
            ..view.client_authorities.verify(&self.presented, now)
        });
        // A connection outlives the views of deleted clusters.
        peers.retain(|(known, _)| known.strong_count() > 0);
        peers.push((Arc::downgrade(view), peer.clone()));
        peer
    }
}

// === impl Peer ===

impl Peer {
    /// Whether a certificate of the client has expired since the handshake.
    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires < now)
    }
}

/// The TLS configuration for these certificates. With `names_authorities` the server sends the names of the accepted
/// CAs, by which clients select a certificate.
fn server_config(identity: Identity, names_authorities: bool) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let accepted = [identity.client_ca.as_slice(), &identity.proxy_ca].concat();
    let handshake = DeferredClientVerifier {
        verifier: client_authorities::verifier(&accepted, provider.clone())?,
        names_authorities,
    };
    let serving = ServingCertificates::new(identity.chain, identity.key, identity.named, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error(error.to_string()))?
        .with_client_cert_verifier(Arc::new(handshake))
        .with_cert_resolver(Arc::new(serving));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
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

/// Accepts every certificate in the handshake if the client proves that it holds the key. [`ClientAuthorities`] verify it
/// once the view that the client wants to use is known.
#[derive(Debug)]
struct DeferredClientVerifier {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Whether the server sends the names of the accepted CAs.
    names_authorities: bool,
}

impl ClientCertVerifier for DeferredClientVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match self.names_authorities {
            true => self.verifier.root_hint_subjects(),
            false => &[],
        }
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
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
