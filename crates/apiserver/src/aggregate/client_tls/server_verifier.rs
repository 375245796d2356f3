//! [`ServerVerifier`]: verifies the certificates of servers against trusted ones, by Go's rules where they differ.
//!
//! * A certificate that is itself in the bundle is trusted, even if it is a CA: webhooks often have a self-signed
//!   certificate, which is also their `caBundle`.
//! * A certificate for another name is reported as such, although its issuer is unknown, too.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use setpoint_x509::Certificate;

/// Verifies server certificates.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    /// Absent if no certificate is trusted.
    chains: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    /// A verifier that trusts these certificates and those that they sign.
    pub(super) fn new(
        trusted: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let chains = match roots.is_empty() {
            true => None,
            false => {
                let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
                Some(builder.build().map_err(|error| error.to_string())?)
            }
        };
        Ok(Self {
            chains,
            trusted,
            provider,
        })
    }

    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.chains {
            Some(chains) => chains.verify_server_cert(certificate, intermediates, name, &[], now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verify_chain(certificate, intermediates, name, now);
        let Err(error) = verified else {
            return verified;
        };
        if is_expired(&error) {
            return Err(error);
        }
        check_validity(certificate, now)?;
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        match self.trusted.iter().any(|one| one == certificate) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(error),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn is_expired(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

/// Checks the period of validity, which comes before all else in Go.
fn check_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let parsed = Certificate::from_der(certificate);
    let parsed = parsed.map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let seconds = |time: jiff::Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
    };
    let (not_before, not_after) = (seconds(parsed.not_before), seconds(parsed.not_after));
    let error = match now {
        now if now > not_after => CertificateError::ExpiredContext { time: now, not_after },
        now if now < not_before => CertificateError::NotValidYetContext {
            time: now,
            not_before,
        },
        _ => return Ok(()),
    };
    Err(error.into())
}
