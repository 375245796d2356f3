//! Certificates, read again by others.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, SanType};
use x509_parser::extensions::GeneralName;

use super::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// An authority as the program makes it.
pub(crate) fn authority() -> Authority {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "test-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let certificate = params.self_signed(&key).unwrap();
    Authority {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

/// A request of somebody with these other names.
pub(crate) fn request(common_name: &str, organization: &str, names: &[SanType]) -> String {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = names.to_vec();
    params.serialize_request(&key).unwrap().pem().unwrap()
}

#[test]
fn what_was_asked_for_is_in_the_certificate_and_it_is_signed() {
    let authority = authority();
    let issuer = Issuer::try_new(&authority).unwrap();
    let names = [
        SanType::DnsName("node.example".try_into().unwrap()),
        SanType::IpAddress([10, 0, 0, 7].into()),
    ];
    let asked = Asked::read(request("system:node:a", "system:nodes", &names).as_bytes()).unwrap();
    let usages = ["digital signature", "key encipherment", "server auth"].map(str::to_owned);
    let until = now() + DAY;
    let pem = issuer
        .issue(&asked, &usages, (now(), until), &[0xff; 16])
        .unwrap();
    assert_eq!(ends(pem.as_bytes()), Some(until));
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (rest, certificate) = X509Certificate::from_der(&der).unwrap();
    assert!(rest.is_empty() && !certificate.is_ca());
    assert_eq!(
        certificate.subject().to_string(),
        "O=system:nodes, CN=system:node:a"
    );
    assert_eq!(certificate.issuer().to_string(), "CN=test-ca");
    let usage = certificate.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
    let extended = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && !extended.client_auth);
    let names = &certificate
        .subject_alternative_name()
        .unwrap()
        .unwrap()
        .value
        .general_names;
    assert!(matches!(
        names.as_slice(),
        [
            GeneralName::DNSName("node.example"),
            GeneralName::IPAddress([10, 0, 0, 7])
        ]
    ));
    assert!(is_signed(&certificate, &authority));
}

fn is_signed(certificate: &X509Certificate<'_>, authority: &Authority) -> bool {
    let ca = CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap();
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    certificate.verify_signature(Some(ca.public_key())).is_ok()
}

/// Pairs made by openssl: PKCS #1, SEC 1 and PKCS #8.
fn others() -> [Authority; 3] {
    let authority = |certificate: &str, key: &str| Authority {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    [
        authority(
            include_str!("../testdata/rsa.crt"),
            include_str!("../testdata/rsa.key"),
        ),
        authority(
            include_str!("../testdata/p384.crt"),
            include_str!("../testdata/p384.key"),
        ),
        authority(
            include_str!("../testdata/ed25519.crt"),
            include_str!("../testdata/ed25519.key"),
        ),
    ]
}

#[test]
fn keys_of_any_kind_and_form_sign() {
    let asked = Asked::read(request("jane", "team", &[]).as_bytes()).unwrap();
    for authority in others() {
        let issuer = Issuer::try_new(&authority).unwrap();
        let begins = at("2027-01-01T00:00:00Z");
        let pem = issuer.issue(&asked, &[], (begins, begins + DAY), &[1]).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert!(is_signed(&certificate, &authority), "{}", certificate.issuer());
    }
}

#[test]
fn a_key_of_another_certificate_is_told() {
    let [one, other, _] = others();
    let mixed = Authority {
        key: other.key,
        ..one
    };
    assert_eq!(Issuer::try_new(&mixed).unwrap_err(), Error::OtherKey);
}

#[test]
fn a_usage_that_nobody_knows_is_told() {
    let issuer = Issuer::try_new(&authority()).unwrap();
    let asked = Asked::read(request("jane", "team", &[]).as_bytes()).unwrap();
    let refused = issuer.issue(&asked, &["flying".to_owned()], (now(), now() + DAY), &[1]);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "unrecognized usage values: [\"flying\"]"
    );
}

#[track_caller]
fn check(wanted: Option<i64>, signer_ends: &str, expected: (&str, &str)) {
    let year = SignedDuration::from_hours(8760);
    let found = validity(now(), (year, wanted), at(signer_ends));
    assert_eq!(found, (at(expected.0), at(expected.1)));
}

#[test]
fn a_certificate_lasts_as_long_as_is_wanted_and_may_be() {
    let (early, late) = ("2025-12-31T23:55:00Z", "2036-01-01T00:00:00Z");
    check(None, late, (early, "2026-12-31T23:55:00Z"));
    check(Some(3600), late, (early, "2026-01-01T01:00:00Z"));
    check(Some(86_400), late, (early, "2026-01-01T23:55:00Z"));
    check(Some(1), late, (early, "2026-01-01T00:10:00Z"));
    check(Some(99_999_999), late, (early, "2026-12-31T23:55:00Z"));
    check(None, "2026-02-01T00:00:00Z", (early, "2026-02-01T00:00:00Z"));
}

#[test]
fn what_is_no_authority_signs_nothing() {
    let Authority { certificate, key } = authority();
    let no_key = Authority {
        certificate: certificate.clone(),
        key: certificate,
    };
    assert_eq!(Issuer::try_new(&no_key).unwrap_err(), Error::Unreadable("key"));
    let no_certificate = Authority {
        certificate: key.clone(),
        key,
    };
    let error = Issuer::try_new(&no_certificate).unwrap_err();
    assert_eq!(error, Error::Unreadable("certificate"));
}
