//! Keys of all algorithms sign, verify and are published.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A throw-away 2048-bit RSA key, for the tests alone.
const RSA: &str = include_str!("testdata/rsa.pem");
/// A throw-away P-256 key in SEC 1 format, as `openssl ecparam -genkey` writes it.
const SEC1: &str = include_str!("testdata/sec1.pem");

#[track_caller]
fn check_pair(pem: &str, algorithm: Algorithm) {
    let key = SigningKey::from_pem(pem).unwrap();
    let signature = key.sign(b"message").unwrap();
    assert_eq!(key.public().algorithm, algorithm);
    assert!(key.public().verifies(b"message", &signature));
    assert!(!key.public().verifies(b"massage", &signature));
    let [again] = PublicKey::all_from_pem(pem).unwrap().try_into().unwrap();
    assert_eq!(again.id, key.public().id);
}

#[test]
fn a_signature_is_verified_by_the_public_key() {
    check_pair(&SigningKey::generate().unwrap(), Algorithm::Es256);
    check_pair(RSA, Algorithm::Rs256);
    check_pair(SEC1, Algorithm::Es256);
}

#[test]
fn a_foreign_signature_is_rejected() {
    let [one, other] = [(); 2].map(|()| SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap());
    let signature = other.sign(b"message").unwrap();
    assert!(!one.public().verifies(b"message", &signature));
    assert_ne!(one.public().id, other.public().id);
}

/// The id of a key is the hash of its public key in DER, as other tools compute it.
#[test]
fn a_key_id_is_the_hash_of_the_public_key() {
    let key = SigningKey::from_pem(RSA).unwrap();
    assert_eq!(key.public().id, include_str!("testdata/rsa.kid").trim());
}

#[test]
fn a_json_web_key_has_the_members_of_its_type() {
    let members = |pem: &str| {
        let key = SigningKey::from_pem(pem).unwrap();
        let web = serde_json::to_value(key.public().web_key()).unwrap();
        web.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let curve = SigningKey::generate().unwrap();
    assert_eq!(members(&curve), ["use", "kty", "kid", "crv", "alg", "x", "y"]);
    assert_eq!(members(RSA), ["use", "kty", "kid", "alg", "n", "e"]);
}

#[test]
fn text_without_a_key_is_rejected() {
    assert!(SigningKey::from_pem("nothing").is_err());
    assert!(PublicKey::all_from_pem("nothing").is_err());
}

#[test]
fn the_servers_key_is_generated_once_with_private_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sa.key");
    let first = load_or_generate(&path).unwrap();
    let second = load_or_generate(&path).unwrap();
    assert_eq!(first.public().id, second.public().id);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
