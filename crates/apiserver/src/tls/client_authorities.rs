//! [`ClientAuthorities`]: the CAs by which a view verifies client certificates.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, UnixTime};
use setpoint_auth::authenticate::certificate;

use super::{Error, Peer};

/// The CAs of client certificates, which their owner replaces when one is rotated. Connections keep the result of the
/// first verification.
#[derive(Debug)]
pub struct ClientAuthorities(RwLock<Verifiers>);

#[derive(Debug, Clone)]
struct Verifiers {
    users: Arc<dyn ClientCertVerifier>,
    /// The verifier of authenticating proxies, if there are any.
    proxies: Option<Arc<dyn ClientCertVerifier>>,
}

impl ClientAuthorities {
    /// The CAs of users' certificates, and those of authenticating proxies, which may be none.
    pub fn new(
        client_ca: &[CertificateDer<'static>],
        proxy_ca: &[CertificateDer<'static>],
    ) -> Result<Arc<Self>, Error> {
        let verifiers = Verifiers::new(client_ca, proxy_ca)?;
        Ok(Arc::new(Self(RwLock::new(verifiers))))
    }

    /// Replaces the CAs. If they cannot be used, the previous ones stay.
    pub(super) fn replace(
        &self,
        client_ca: &[CertificateDer<'static>],
        proxy_ca: &[CertificateDer<'static>],
    ) -> Result<(), Error> {
        let verifiers = Verifiers::new(client_ca, proxy_ca)?;
        *self.0.write() = verifiers;
        Ok(())
    }

    /// Verifies the certificates that a client presented.
    pub(crate) fn verify(&self, presented: &[CertificateDer<'_>], now: Timestamp) -> Peer {
        let [leaf, intermediates @ ..] = presented else {
            return Peer::default();
        };
        let since = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(since));
        let verified = |verifier: &Arc<dyn ClientCertVerifier>| {
            let verified = verifier.verify_client_cert(leaf, intermediates, now);
            verified.map(|_| leaf.to_vec())
        };
        let Verifiers { users, proxies } = self.0.read().clone();
        let proxy_certificate = proxies.as_ref().and_then(|proxies| verified(proxies).ok());
        let user_certificate =
            verified(&users).inspect_err(|reason| tracing::debug!(%reason, "client certificate rejected"));
        Peer {
            distrusted: user_certificate.is_err(),
            certificate: user_certificate.ok(),
            proxy_certificate,
            expires: certificate::first_expiry(presented),
            ..Peer::default()
        }
    }
}

impl Verifiers {
    fn new(
        client_ca: &[CertificateDer<'static>],
        proxy_ca: &[CertificateDer<'static>],
    ) -> Result<Self, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let proxies = match proxy_ca.is_empty() {
            true => None,
            false => Some(verifier(proxy_ca, provider.clone())?),
        };
        Ok(Self {
            users: verifier(client_ca, provider)?,
            proxies,
        })
    }
}

/// A verifier of certificates that one of these CAs has signed.
pub(super) fn verifier(
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
