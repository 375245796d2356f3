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
    Pki::open(dir, &[listen], "front-proxy-client", now).unwrap()
}

#[test]
fn certificates_are_reused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    let second = open(dir.path(), LOOPBACK, at("2026-02-01T00:00:00Z"));
    assert_eq!(
        first.authority.signing.certificate,
        second.authority.signing.certificate
    );
    assert_eq!(first.server.certificate, second.server.certificate);
    assert_eq!(first.administrator.certificate, second.administrator.certificate);
    assert_eq!(first.proxy.certificate, second.proxy.certificate);
}

/// A client with a certificate of the front-proxy CA may impersonate any user, so users must not get one of it.
#[test]
fn the_front_proxy_has_its_own_ca() {
    let dir = tempfile::tempdir().unwrap();
    let pki = open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    assert_ne!(
        pki.proxy_authority.signing.certificate,
        pki.authority.signing.certificate
    );
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let signed_by = |certificate: &str, authority: &str| {
        let (certificate, authority) = (der(certificate), der(authority));
        let certificate = Certificate::from_der(&certificate).unwrap();
        let authority = Certificate::from_der(&authority).unwrap();
        certificate.issuer == authority.subject
    };
    assert!(signed_by(
        &pki.proxy.certificate,
        &pki.proxy_authority.signing.certificate
    ));
    assert!(!signed_by(
        &pki.administrator.certificate,
        &pki.proxy_authority.signing.certificate
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

/// FL6
#[test]
fn the_server_has_a_certificate_for_each_of_its_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let addresses = [LOOPBACK, IpAddr::from([0, 0, 0, 0]), IpAddr::from([10, 96, 0, 1])];
    let pki = Pki::open(
        dir.path(),
        &addresses,
        "front-proxy-client",
        at("2026-01-01T00:00:00Z"),
    )
    .unwrap();
    let names = with_certificate(&pki.server, |one| one.subject_alt_names());
    let certified: Vec<&[u8]> = names
        .iter()
        .filter_map(|name| match name {
            GeneralName::Address(address) => Some(address.as_slice()),
            _ => None,
        })
        .collect();
    let local = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(certified, [&[127, 0, 0, 1][..], &local, &[10, 96, 0, 1]]);
}

#[test]
fn a_certificate_that_is_about_to_expire_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z"));
    let second = open(dir.path(), LOOPBACK, at("2026-12-20T00:00:00Z"));
    assert_eq!(
        first.authority.signing.certificate,
        second.authority.signing.certificate
    );
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

/// The certificate of a pair.
fn with_certificate<T>(pair: &CertKeyPair, read: impl Fn(&Certificate<'_>) -> T) -> T {
    let der = pair.certificate_der().unwrap();
    read(&Certificate::from_der(&der).unwrap())
}

fn is_valid(pair: &CertKeyPair, now: Timestamp) -> bool {
    with_certificate(pair, |one| one.not_before <= now && now < one.not_after)
}

fn is_signed_by(pair: &CertKeyPair, authority: &CertKeyPair) -> bool {
    let id = with_certificate(authority, |one| one.subject_key_id().unwrap().to_vec());
    with_certificate(pair, |one| one.authority_key_id() == Some(&id))
}

#[test]
fn certificates_are_renewed_after_two_thirds_of_their_validity() {
    let dir = tempfile::tempdir().unwrap();
    let start = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), LOOPBACK, start);
    let after = |days: i64| open(dir.path(), LOOPBACK, start + days_long(days));
    assert_eq!(after(243), first);
    let second = after(244);
    assert_ne!(second.server, first.server);
    assert_ne!(second.administrator, first.administrator);
    assert_ne!(second.proxy, first.proxy);
    assert_eq!(second.authority, first.authority);
}

fn days_long(days: i64) -> jiff::SignedDuration {
    jiff::SignedDuration::from_hours(24 * days)
}

#[test]
fn for_thirty_years_certificates_are_valid_and_every_ca_is_trusted_before_it_signs() {
    let dir = tempfile::tempdir().unwrap();
    let mut now = at("2026-01-01T00:00:00Z");
    let mut before = open(dir.path(), LOOPBACK, now);
    let mut changes = 0;
    for _ in 0..30 * 12 {
        now += days_long(30);
        let pki = open(dir.path(), LOOPBACK, now);
        for pair in [&pki.server, &pki.administrator, &pki.authority.signing] {
            assert!(is_valid(pair, now), "{now}");
        }
        assert!(is_signed_by(&pki.server, &pki.authority.signing));
        assert!(is_signed_by(&pki.proxy, &pki.proxy_authority.signing));
        let trusted = before
            .authority
            .bundle
            .contains(&pki.authority.signing.certificate);
        assert!(trusted, "a month earlier nobody trusts the CA of {now}");
        let signed_before = pki
            .authority
            .bundle
            .contains(&before.authority.signing.certificate);
        assert!(signed_before, "certificates of a month ago are invalid at {now}");
        changes += i32::from(pki.authority.signing != before.authority.signing);
        before = pki;
    }
    assert_eq!(changes, 4);
    let trusted = before.authority.trusted().unwrap().len();
    assert!(trusted <= 2, "{trusted} CAs are trusted");
}

#[test]
fn a_promotion_that_a_crash_interrupted_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), LOOPBACK, now);
    crate::rotate_authorities(dir.path(), now).unwrap();
    fs::rename(dir.path().join("ca-next.key"), dir.path().join("ca.key")).unwrap();
    let second = open(dir.path(), LOOPBACK, now);
    assert_ne!(second.authority.signing, first.authority.signing);
    assert!(is_signed_by(&second.server, &second.authority.signing));
}

#[test]
fn a_ca_with_the_key_of_another_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    open(dir.path(), LOOPBACK, now);
    fs::copy(dir.path().join("server.key"), dir.path().join("ca.key")).unwrap();
    let error = Pki::open(dir.path(), &[LOOPBACK], "front-proxy-client", now).unwrap_err();
    assert_eq!(error.to_string(), "ca.key is not the key of ca.crt");
}

#[test]
fn a_certificate_with_the_key_of_another_is_issued_again() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), LOOPBACK, now);
    fs::copy(dir.path().join("admin.key"), dir.path().join("server.key")).unwrap();
    let second = open(dir.path(), LOOPBACK, now);
    assert_ne!(second.server.certificate, first.server.certificate);
    assert!(second.server.is_matching());
}

#[test]
fn a_command_renews_certificates_with_the_names_they_have() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), IpAddr::from([10, 1, 2, 3]), now);
    let renewed = crate::renew_certificates(dir.path(), now).unwrap();
    assert_eq!(
        renewed,
        [
            "server.crt",
            "admin.crt",
            "apiserver-kubelet-client.crt",
            "front-proxy-client.crt"
        ]
    );
    let second = open(dir.path(), IpAddr::from([10, 1, 2, 3]), now);
    assert_ne!(second.server, first.server);
    let names = |pki: &Pki| with_certificate(&pki.server, |one| one.subject_alt_names());
    assert_eq!(names(&second), names(&first));
}

#[test]
fn a_command_rotates_the_cas_in_two_steps() {
    use crate::Rotation::{Created, Promoted};
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = open(dir.path(), LOOPBACK, now);
    let rotate = || crate::rotate_authorities(dir.path(), now).unwrap();
    assert_eq!(rotate().iter().map(|one| one.1).collect::<Vec<_>>(), [Created; 2]);
    let second = open(dir.path(), LOOPBACK, now);
    assert_eq!(second.authority.signing, first.authority.signing);
    assert_eq!(second.authority.trusted().unwrap().len(), 2);
    assert_eq!(second.server, first.server);
    assert_eq!(
        rotate().iter().map(|one| one.1).collect::<Vec<_>>(),
        [Promoted; 2]
    );
    let third = open(dir.path(), LOOPBACK, now);
    assert_ne!(third.authority.signing, first.authority.signing);
    assert!(
        third
            .authority
            .bundle
            .contains(&first.authority.signing.certificate)
    );
    assert!(is_signed_by(&third.administrator, &third.authority.signing));
}

#[test]
fn the_inventory_lists_certificates_with_names_and_expiry() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    open(dir.path(), LOOPBACK, now);
    let entries = crate::inventory(dir.path(), now).unwrap();
    let files: Vec<&str> = entries.iter().map(|entry| entry.file.as_str()).collect();
    assert_eq!(
        files,
        [
            "ca.crt",
            "server.crt",
            "admin.crt",
            "apiserver-kubelet-client.crt",
            "front-proxy-ca.crt",
            "front-proxy-client.crt"
        ]
    );
    let server = entries[1].certificate.as_ref().unwrap();
    assert_eq!(
        (server.subject.as_str(), server.issuer.as_str()),
        ("CN=setpoint", "CN=setpoint-ca")
    );
    assert!(server.names.contains(&"127.0.0.1".to_owned()) && server.names.contains(&"localhost".to_owned()));
    assert_eq!(entries[1].expires, Some(at("2027-01-01T00:00:00Z")));
    assert_eq!(
        entries[2].certificate.as_ref().unwrap().subject,
        "CN=kubernetes-admin,O=system:masters"
    );
}
