//! Which certificates are reused, and which are issued again.

use std::os::unix::fs::PermissionsExt;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use setpoint_x509::Certificate;

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn open(dir: &Path, listen: IpAddr, now: Timestamp) -> Pki {
    Pki::open(dir, listen, "front-proxy-client", now).unwrap()
}

#[test]
fn certificates_are_reused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    let second = open(dir.path(), LOOPBACK, at("2026-02-01T00:00:00Z"));
    assert_eq!(first.authority.certificate, second.authority.certificate);
    assert_eq!(first.server.certificate, second.server.certificate);
    assert_eq!(first.administrator.certificate, second.administrator.certificate);
    assert_eq!(first.proxy.certificate, second.proxy.certificate);
}

/// A client with a certificate of the front-proxy CA may impersonate any user, so users must not get one of it.
#[test]
fn the_front_proxy_has_its_own_ca() {
    let dir = tempfile::tempdir().unwrap();
    let pki = open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    assert_ne!(pki.proxy_authority.certificate, pki.authority.certificate);
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let signed_by = |certificate: &str, authority: &str| {
        let (certificate, authority) = (der(certificate), der(authority));
        let certificate = Certificate::from_der(&certificate).unwrap();
        let authority = Certificate::from_der(&authority).unwrap();
        certificate.issuer == authority.subject
    };
    assert!(signed_by(
        &pki.proxy.certificate,
        &pki.proxy_authority.certificate
    ));
    assert!(!signed_by(
        &pki.administrator.certificate,
        &pki.proxy_authority.certificate
    ));
}

#[test]
fn another_address_needs_another_server_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), LOOPBACK, now);
    let second = open(dir.path(), IpAddr::from([10, 1, 2, 3]), now);
    assert_ne!(first.server.certificate, second.server.certificate);
    assert_eq!(first.administrator.certificate, second.administrator.certificate);
}

#[test]
fn a_certificate_that_is_about_to_expire_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    let second = open(dir.path(), LOOPBACK, at("2026-12-20T00:00:00Z"));
    assert_eq!(first.authority.certificate, second.authority.certificate);
    assert_ne!(first.server.certificate, second.server.certificate);
    assert_ne!(first.administrator.certificate, second.administrator.certificate);
}

#[test]
fn a_new_ca_issues_all_certificates_again() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), LOOPBACK, now);
    fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let second = open(dir.path(), LOOPBACK, now);
    assert_ne!(first.administrator.certificate, second.administrator.certificate);
    assert_ne!(first.server.certificate, second.server.certificate);
}

#[test]
fn keys_are_readable_by_their_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    for name in ["ca.key", "server.key", "admin.key"] {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
