//! TLS configuration of a client: trusted CAs and the client certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::connect::Connector;
use super::{Error, Http};
use crate::kubeconfig::{Connection, Identity};

/// Accepts any server certificate (`insecure-skip-tls-verify`).
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

/// The TLS configuration of a connection, with HTTP/2 where the server supports it.
pub fn client_config(connection: &Connection) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &connection.authority {
        _ if connection.insecure_skip_tls_verify => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(NoVerification(provider))),
        Some(authority) => builder.with_root_certificates(roots(authority)?),
        None => return Err(Error::NoAuthority(connection.server.clone())),
    };
    let mut config = match &connection.identity {
        Identity::Certificate { chain, key } => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unreadable("client key", error))?;
            builder.with_client_auth_cert(certificates("client certificate", chain)?, key)?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl Http {
    /// The certificate chain that a server presents, in DER. It is not verified, and no credentials are sent.
    pub async fn served_certificates(connection: &Connection) -> std::io::Result<Vec<Vec<u8>>> {
        let connection = Connection {
            insecure_skip_tls_verify: true,
            identity: Identity::Anonymous,
            ..connection.clone()
        };
        let connector = Connector::new(&connection).map_err(std::io::Error::other)?;
        connector.served_certificates().await
    }
}

fn roots(authority: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("certificate authority", authority)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| unreadable(what, error))?;
    match certificates.is_empty() {
        true => Err(unreadable(what, "it contains no certificate")),
        false => Ok(certificates),
    }
}

fn unreadable(what: &'static str, reason: impl ToString) -> Error {
    let reason = reason.to_string();
    Error::Pem { what, reason }
}

impl ServerCertVerifier for NoVerification {
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
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
