//! Which certificates are made anew.

use std::os::unix::fs::PermissionsExt;

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn certificates_are_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z")).unwrap();
    let second = Pki::open(dir.path(), LOOPBACK, at("2026-02-01T00:00:00Z")).unwrap();
    assert_eq!(first.authority.certificate, second.authority.certificate);
    assert_eq!(first.server.certificate, second.server.certificate);
    assert_eq!(first.administrator.certificate, second.administrator.certificate);
}

#[test]
fn another_address_needs_another_server_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = Pki::open(dir.path(), LOOPBACK, now).unwrap();
    let second = Pki::open(dir.path(), IpAddr::from([10, 1, 2, 3]), now).unwrap();
    assert_ne!(first.server.certificate, second.server.certificate);
    assert_eq!(first.administrator.certificate, second.administrator.certificate);
}

#[test]
fn what_is_about_to_end_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z")).unwrap();
    let second = Pki::open(dir.path(), LOOPBACK, at("2026-12-20T00:00:00Z")).unwrap();
    assert_eq!(first.authority.certificate, second.authority.certificate);
    assert_ne!(first.server.certificate, second.server.certificate);
    assert_ne!(first.administrator.certificate, second.administrator.certificate);
}

#[test]
fn a_new_authority_signs_everything_anew() {
    let dir = tempfile::tempdir().unwrap();
    let now = at("2026-01-01T00:00:00Z");
    let first = Pki::open(dir.path(), LOOPBACK, now).unwrap();
    fs::remove_file(dir.path().join("ca.crt")).unwrap();
    let second = Pki::open(dir.path(), LOOPBACK, now).unwrap();
    assert_ne!(first.administrator.certificate, second.administrator.certificate);
    assert_ne!(first.server.certificate, second.server.certificate);
}

#[test]
fn keys_are_for_their_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    Pki::open(dir.path(), LOOPBACK, at("2026-01-01T00:00:00Z")).unwrap();
    for name in ["ca.key", "server.key", "admin.key"] {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
