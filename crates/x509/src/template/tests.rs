//! Certificates and requests, with `rcgen` and `x509-parser` as a second opinion.

use jiff::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, SanType};
use x509_parser::extensions::GeneralName as ParsedName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::{
    Certificate, CertificateRequest, CertificateTemplate, Error, GeneralName, Name, PrivateKey, extension,
    oid,
};

const NOT_BEFORE: &str = "2026-01-02T03:04:05Z";
const NOT_AFTER: &str = "2056-01-02T03:04:05Z";

fn issue(key: &PrivateKey, extensions: Vec<Vec<u8>>) -> Vec<u8> {
    let name = Name::encode(&[(oid::ORGANIZATION, "system:masters"), (oid::COMMON_NAME, "admin")]);
    let template = CertificateTemplate {
        serial_number: &[0x80, 1],
        issuer: &name,
        subject: &name,
        public_key: &key.public_key_info(),
        not_before: NOT_BEFORE.parse().unwrap(),
        not_after: NOT_AFTER.parse().unwrap(),
        extensions,
    };
    template.sign(key).unwrap()
}

fn names() -> Vec<GeneralName> {
    vec![
        GeneralName::Dns("localhost".to_owned()),
        GeneralName::Address(vec![127, 0, 0, 1]),
        GeneralName::Email("a@b.c".to_owned()),
        GeneralName::Uri("spiffe://a/b".to_owned()),
    ]
}

#[test]
fn an_issued_certificate_is_read_by_another_library() {
    let (key, _) = PrivateKey::generate().unwrap();
    let der = issue(
        &key,
        vec![
            extension::key_usage(0x8400),
            extension::extended_key_usage(&[oid::SERVER_AUTH]),
            extension::ca_without_intermediates(),
            extension::subject_key_id(&[1, 2, 3]),
            extension::subject_alt_names(&names()),
        ],
    );
    let (rest, parsed) = X509Certificate::from_der(&der).unwrap();
    assert!(rest.is_empty());
    assert!(parsed.is_ca());
    assert!(parsed.verify_signature(None).is_ok());
    assert_eq!(parsed.subject().to_string(), "O=system:masters, CN=admin");
    let not_after: Timestamp = NOT_AFTER.parse().unwrap();
    assert_eq!(parsed.validity().not_after.timestamp(), not_after.as_second());
    let usages = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usages.server_auth && !usages.client_auth);
    let alternative = parsed.subject_alternative_name().unwrap().unwrap().value;
    assert!(
        alternative
            .general_names
            .contains(&ParsedName::DNSName("localhost"))
    );
}

#[test]
fn an_issued_certificate_is_read_back() {
    let (key, _) = PrivateKey::generate().unwrap();
    let extensions = vec![
        extension::not_a_ca(),
        extension::subject_key_id(&[7]),
        extension::subject_alt_names(&names()),
    ];
    let der = issue(&key, extensions);
    let certificate = Certificate::from_der(&der).unwrap();
    assert!(!certificate.is_ca());
    assert_eq!(certificate.subject_key_id(), Some(&[7][..]));
    assert_eq!(certificate.subject_alt_names(), names());
    assert_eq!(certificate.not_before, NOT_BEFORE.parse().unwrap());
    assert_eq!(certificate.not_after, NOT_AFTER.parse().unwrap());
    assert_eq!(certificate.public_key.key, key.public());
    assert_eq!(certificate.issuer, certificate.subject);
}

#[test]
fn certificates_of_another_library_are_read() {
    let mut params = CertificateParams::new(vec!["a.b".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after = rcgen::date_time_ymd(2051, 1, 1);
    let key = KeyPair::generate().unwrap();
    let der = params.self_signed(&key).unwrap().der().to_vec();
    let certificate = Certificate::from_der(&der).unwrap();
    assert!(certificate.is_ca());
    assert_eq!(certificate.not_after, "2051-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(
        certificate.subject_alt_names(),
        [GeneralName::Dns("a.b".to_owned())]
    );
}

/// A certificate and every cut of it.
#[test]
fn a_truncated_or_extended_certificate_is_malformed() {
    let (key, _) = PrivateKey::generate().unwrap();
    let der = issue(&key, vec![extension::not_a_ca()]);
    for length in 0..der.len() {
        assert!(Certificate::from_der(&der[..length]).is_err(), "{length} bytes");
    }
    let longer = [&der[..], &[0]].concat();
    let malformed = Error::Malformed("certificate");
    assert_eq!(Certificate::from_der(&longer).unwrap_err(), malformed);
}

/// Each byte is replaced in turn: reading may fail, but must not panic.
#[test]
fn a_corrupted_certificate_does_not_panic() {
    let (key, _) = PrivateKey::generate().unwrap();
    let der = issue(&key, vec![extension::subject_alt_names(&names())]);
    for position in 0..der.len() {
        for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
            let mut corrupted = der.clone();
            corrupted[position] = byte;
            if let Ok(certificate) = Certificate::from_der(&corrupted) {
                let _ = certificate.subject_alt_names();
                let _ = certificate.subject.organizations().count();
            }
        }
    }
}

fn request(key: &KeyPair) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.subject_alt_names = vec![SanType::URI("spiffe://a/b".try_into().unwrap())];
    params.serialize_request(key).unwrap().der().to_vec()
}

#[test]
fn a_request_is_signed_with_its_own_key() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ] {
        let der = request(&KeyPair::generate_for(algorithm).unwrap());
        let request = CertificateRequest::from_der(&der).unwrap();
        assert_eq!(request.verify_signature(), Ok(()));
        assert_eq!(request.subject.common_names().collect::<Vec<_>>(), ["alice"]);
        assert_eq!(
            request.subject_alt_names(),
            [GeneralName::Uri("spiffe://a/b".to_owned())]
        );
    }
}

#[test]
fn a_changed_request_has_an_invalid_signature() {
    let mut der = request(&KeyPair::generate().unwrap());
    let name = der.windows(5).position(|window| window == b"alice").unwrap();
    der[name] = b'A';
    let request = CertificateRequest::from_der(&der).unwrap();
    assert_eq!(request.verify_signature(), Err(Error::InvalidSignature));
}

#[test]
fn keys_of_every_algorithm_sign() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
    ] {
        let pem = KeyPair::generate_for(algorithm).unwrap().serialize_pem();
        let key = PrivateKey::from_pem(&pem).unwrap();
        let der = issue(&key, Vec::new());
        let (_, parsed) = X509Certificate::from_der(&der).unwrap();
        assert!(parsed.verify_signature(None).is_ok());
    }
}
