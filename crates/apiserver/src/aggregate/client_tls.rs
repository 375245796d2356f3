//! TLS client configuration for aggregated API servers, kubelets and webhooks: certificate verification and client
//! certificates.

mod go_text;
mod server_verifier;
mod system_roots;

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{ProxyClientIdentity, TlsTrust};
pub(crate) use go_text::certificate_error;
use server_verifier::ServerVerifier;

/// Accepts any certificate: `insecureSkipTLSVerify` of an APIService, and kubelets without a configured CA.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

/// The TLS configuration for a server.
pub(crate) fn config(
    trust: &TlsTrust,
    identity: Option<&ProxyClientIdentity>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match trust {
        TlsTrust::InsecureSkipTlsVerify => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider))),
        TlsTrust::CaBundle(pem) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier::new(roots(pem)?, provider)?)),
        TlsTrust::System => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ServerVerifier::new(system_roots::read(), provider)?)),
    };
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => builder
            .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| error.to_string()),
    }
}

/// The certificates of a CA bundle.
fn roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates.map_err(|error| error.to_string())? {
        none if none.is_empty() => {
            Err("unable to load root certificates: no certificate in the bundle".to_owned())
        }
        certificates => Ok(certificates),
    }
}

impl ServerCertVerifier for AcceptAnyCertificate {
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
