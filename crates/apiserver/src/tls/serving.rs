//! The serving certificate of a handshake, selected by its server name (SNI).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Error;

/// A serving certificate for certain server names.
#[derive(Debug)]
pub struct NamedCertificate {
    /// DNS names, of which labels may be `*`, such as `*.example.com`.
    pub names: Vec<String>,
    /// The certificate chain, leaf first.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// The serving certificates of a server.
#[derive(Debug)]
pub(super) struct ServingCertificates {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl ServingCertificates {
    pub(super) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        named: Vec<NamedCertificate>,
        provider: &CryptoProvider,
    ) -> Result<Self, Error> {
        let certified = |chain, key| {
            let certified = CertifiedKey::from_der(chain, key, provider);
            certified.map(Arc::new).map_err(|error| Error(error.to_string()))
        };
        let mut by_name = HashMap::new();
        for certificate in named {
            let certified = certified(certificate.chain, certificate.key)?;
            for name in certificate.names {
                by_name
                    .entry(name.to_ascii_lowercase())
                    .or_insert_with(|| certified.clone());
            }
        }
        Ok(Self {
            default: certified(chain, key)?,
            by_name,
        })
    }

    /// The certificate for a server name. A name without wildcards is preferred; then labels are replaced by `*` from the
    /// left, as Go's TLS library does.
    fn find(&self, server_name: &str) -> &Arc<CertifiedKey> {
        let name = server_name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(found) = self.by_name.get(&name) {
            return found;
        }
        let mut labels: Vec<&str> = name.split('.').collect();
        for i in 0..labels.len() {
            labels[i] = "*";
            if let Some(found) = self.by_name.get(&labels.join(".")) {
                return found;
            }
        }
        &self.default
    }
}

impl ResolvesServerCert for ServingCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let found = hello.server_name().map_or(&self.default, |name| self.find(name));
        Some(found.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::tests::TestCa;

    #[test]
    fn the_server_name_selects_the_certificate() {
        let authority = TestCa::new();
        let named = |names: &[&str]| {
            let (certificate, key) = authority.sign("server", "setpoint");
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let chain = vec![certificate];
            NamedCertificate { names, chain, key }
        };
        let (default, first, second) = (
            named(&[]),
            named(&["*.a.org", "b.org"]),
            named(&["b.org", "x.a.org"]),
        );
        let expected = [&default, &first, &second].map(|one| one.chain[0].clone());
        let provider = rustls::crypto::ring::default_provider();
        let serving =
            ServingCertificates::new(default.chain, default.key, vec![first, second], &provider).unwrap();
        let rows = [
            ("y.a.org", 1),
            ("x.a.org", 2),
            ("X.A.org", 2),
            ("b.org", 1),
            ("a.org", 0),
            ("z.y.a.org", 0),
        ];
        for (name, index) in rows {
            assert_eq!(serving.find(name).cert[0], expected[index], "{name}");
        }
    }

    #[test]
    fn a_certificate_with_the_key_of_another_is_rejected() {
        let authority = TestCa::new();
        let ((certificate, _), (_, key)) = (authority.sign("a", "setpoint"), authority.sign("b", "setpoint"));
        let provider = rustls::crypto::ring::default_provider();
        assert!(ServingCertificates::new(vec![certificate], key, Vec::new(), &provider).is_err());
    }
}
