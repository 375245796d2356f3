//! [`PrivateKey`]: the key of a certificate authority or of a certificate, in any of the encodings that tools write.

use std::fmt;

use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

use crate::der::write;
use crate::{Error, oid, pem, public_key};

/// A private key that signs certificates.
pub struct PrivateKey {
    pair: KeyPair,
    /// The AlgorithmIdentifier of its signatures: the algorithm with its parameters.
    algorithm: Vec<u8>,
}

enum KeyPair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<rsa::KeyPair>),
}

/// The types of keys that can be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    EcdsaP256,
    EcdsaP384,
    Ed25519,
}

/// The curves, with the algorithm of their signatures.
const CURVES: [(&EcdsaSigningAlgorithm, &[u32]); 2] = [
    (&signature::ECDSA_P256_SHA256_ASN1_SIGNING, oid::ECDSA_WITH_SHA256),
    (&signature::ECDSA_P384_SHA384_ASN1_SIGNING, oid::ECDSA_WITH_SHA384),
];

impl PrivateKey {
    /// Generates a P-256 key. Returns it with its PEM text.
    pub fn generate() -> Result<(Self, String), Error> {
        Self::generate_of_type(KeyType::EcdsaP256)
    }

    /// Generates a key of this type. Returns it with its PEM text.
    pub fn generate_of_type(key_type: KeyType) -> Result<(Self, String), Error> {
        let random = SystemRandom::new();
        let pkcs8 = match key_type {
            KeyType::EcdsaP256 => EcdsaKeyPair::generate_pkcs8(CURVES[0].0, &random),
            KeyType::EcdsaP384 => EcdsaKeyPair::generate_pkcs8(CURVES[1].0, &random),
            KeyType::Ed25519 => Ed25519KeyPair::generate_pkcs8(&random),
        };
        let pkcs8 = pkcs8.map_err(|_| Error::Random)?;
        let key = Self::from_pkcs8(pkcs8.as_ref()).ok_or(Error::Random)?;
        Ok((key, pem::encode(pem::PRIVATE_KEY, pkcs8.as_ref())))
    }

    /// Reads a PEM key in PKCS #8, PKCS #1 or SEC 1 format.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| Error::Pem("key"))?;
        let key = pkcs8_encodings(&key).iter().find_map(|der| Self::from_pkcs8(der));
        key.ok_or(Error::UnsupportedAlgorithm("key"))
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        for (curve, algorithm) in CURVES {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve, der, &SystemRandom::new()) {
                let algorithm = write::sequence(&[write::identifier(algorithm)]);
                return Some(Self {
                    pair: KeyPair::Ecdsa(pair),
                    algorithm,
                });
            }
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            let algorithm = write::sequence(&[write::identifier(oid::ED25519)]);
            return Some(Self {
                pair: KeyPair::Ed25519(pair),
                algorithm,
            });
        }
        let pair = rsa::KeyPair::from_pkcs8(der).ok()?;
        let algorithm = write::sequence(&[write::identifier(oid::RSA_WITH_SHA256), write::null()]);
        Some(Self {
            pair: KeyPair::Rsa(Box::new(pair)),
            algorithm,
        })
    }

    /// The public key as it is inside a SubjectPublicKeyInfo.
    pub fn public(&self) -> &[u8] {
        match &self.pair {
            KeyPair::Ecdsa(pair) => pair.public_key().as_ref(),
            KeyPair::Ed25519(pair) => pair.public_key().as_ref(),
            KeyPair::Rsa(pair) => pair.public().as_ref(),
        }
    }

    /// The DER encoding of the SubjectPublicKeyInfo.
    pub fn public_key_info(&self) -> Vec<u8> {
        match &self.pair {
            KeyPair::Ecdsa(_) => public_key::encode_elliptic_curve_key(self.public()),
            KeyPair::Ed25519(_) => public_key::encode_ed25519(self.public()),
            KeyPair::Rsa(_) => public_key::encode_rsa_key(self.public()),
        }
    }

    pub(crate) fn algorithm(&self) -> &[u8] {
        &self.algorithm
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let random = SystemRandom::new();
        let failed = |_| Error::Sign("the cryptographic library failed");
        match &self.pair {
            KeyPair::Ecdsa(pair) => Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
            KeyPair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            KeyPair::Rsa(pair) => {
                let mut signed = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signed)
                    .map_err(failed)?;
                Ok(signed)
            }
        }
    }
}

/// The private key is not printed.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").finish_non_exhaustive()
    }
}

/// A key as PKCS #8, in the encodings that may be meant: SEC 1 need not name its curve.
pub fn pkcs8_encodings(key: &PrivateKeyDer<'_>) -> Vec<Vec<u8>> {
    match key {
        PrivateKeyDer::Pkcs8(key) => vec![key.secret_pkcs8_der().to_vec()],
        PrivateKeyDer::Pkcs1(key) => vec![wrap(oid::RSA, &write::null(), key.secret_pkcs1_der())],
        PrivateKeyDer::Sec1(key) => [oid::P256, oid::P384]
            .map(|curve| {
                wrap(
                    oid::EC_PUBLIC_KEY,
                    &write::identifier(curve),
                    key.secret_sec1_der(),
                )
            })
            .into(),
        _ => Vec::new(),
    }
}

/// A PKCS #1 or SEC 1 key wrapped as PKCS #8.
fn wrap(kind: &[u32], parameters: &[u8], key: &[u8]) -> Vec<u8> {
    let algorithm = write::sequence(&[write::identifier(kind), parameters.to_vec()]);
    write::sequence(&[write::integer(&[0]), algorithm, write::octets(key)])
}
