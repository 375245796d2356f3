//! The private key of a certificate authority, in any of the encodings that tools write.

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData,
    SignatureAlgorithm, SigningKey,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::certificates::der;

/// A private key, and its signature algorithm as certificates name it.
#[derive(Debug)]
pub(super) struct AuthorityKey {
    key: KeyPair,
    /// The AlgorithmIdentifier: the algorithm with its parameters.
    pub(super) algorithm: Vec<u8>,
}

const RSA: [u32; 7] = [1, 2, 840, 113_549, 1, 1, 1];
const RSA_WITH_SHA256: [u32; 7] = [1, 2, 840, 113_549, 1, 1, 11];
const ELLIPTIC: [u32; 6] = [1, 2, 840, 10045, 2, 1];
const P256: [u32; 7] = [1, 2, 840, 10045, 3, 1, 7];
const P384: [u32; 5] = [1, 3, 132, 0, 34];
const ECDSA_WITH_SHA256: [u32; 7] = [1, 2, 840, 10045, 4, 3, 2];
const ECDSA_WITH_SHA384: [u32; 7] = [1, 2, 840, 10045, 4, 3, 3];
const ED25519: [u32; 4] = [1, 3, 101, 112];

impl AuthorityKey {
    /// Parses a PEM key; `None` if it is not a key or of an unsupported algorithm.
    pub(super) fn from_pem(pem: &str) -> Option<Self> {
        let forms = match PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()? {
            PrivateKeyDer::Pkcs8(key) => vec![key.secret_pkcs8_der().to_vec()],
            PrivateKeyDer::Pkcs1(key) => vec![wrapped(&RSA, &der::null(), key.secret_pkcs1_der())],
            PrivateKeyDer::Sec1(key) => [&P256[..], &P384]
                .map(|curve| wrapped(&ELLIPTIC, &der::identifier(curve), key.secret_sec1_der()))
                .into(),
            _ => return None,
        };
        forms.into_iter().find_map(Self::from_pkcs8)
    }

    fn from_pkcs8(der: Vec<u8>) -> Option<Self> {
        let pkcs8 = PrivatePkcs8KeyDer::from(der);
        let known: [(&'static SignatureAlgorithm, Vec<u8>); 4] = [
            (&PKCS_ECDSA_P256_SHA256, der::identifier(&ECDSA_WITH_SHA256)),
            (&PKCS_ECDSA_P384_SHA384, der::identifier(&ECDSA_WITH_SHA384)),
            (&PKCS_ED25519, der::identifier(&ED25519)),
            (
                &PKCS_RSA_SHA256,
                [der::identifier(&RSA_WITH_SHA256), der::null()].concat(),
            ),
        ];
        known.into_iter().find_map(|(algorithm, name)| {
            let key = KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, algorithm).ok()?;
            let algorithm = der::sequence(&[name]);
            Some(Self { key, algorithm })
        })
    }

    /// The public key as a certificate contains it.
    pub(super) fn public(&self) -> &[u8] {
        self.key.der_bytes()
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.key.sign(message)
    }
}

/// A PKCS #1 or SEC 1 key wrapped as PKCS #8.
fn wrapped(kind: &[u32], parameters: &[u8], key: &[u8]) -> Vec<u8> {
    let algorithm = der::sequence(&[der::identifier(kind), parameters.to_vec()]);
    der::sequence(&[der::integer(&[0]), algorithm, der::value(der::OCTET_STRING, key)])
}
