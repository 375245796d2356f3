//! Certificate authorities of the system: the PEM bundle of its distribution, as Go's `crypto/x509` finds it.

use std::env;
use std::fs;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// The bundles of Debian and Alpine, Fedora and RHEL, OpenSUSE, OpenELEC, CentOS, and Alpine again; the first that exists
/// counts.
const BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates of the bundle; `SSL_CERT_FILE` names another. Without a bundle no server is trusted.
pub(super) fn read() -> Vec<CertificateDer<'static>> {
    let named = env::var_os("SSL_CERT_FILE").and_then(|path| fs::read(path).ok());
    let bundle = named.or_else(|| BUNDLES.iter().find_map(|path| fs::read(path).ok()));
    let bundle = bundle.unwrap_or_default();
    CertificateDer::pem_slice_iter(&bundle)
        .filter_map(Result::ok)
        .collect()
}
