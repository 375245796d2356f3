//! [`KeySet`]: the public keys of an OpenID provider (RFC 7517), and the verification of signatures (RFC 7518).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

use super::token::Token;

/// The signature algorithms that Kubernetes allows. `ring` has no P-521, so keys of ES512 verify nothing.
pub const SIGNING_ALGORITHMS: [&str; 9] = [
    "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
];

/// The keys of a provider. Keys of unknown types are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: String,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
}

#[derive(Debug, Deserialize)]
struct KeySetObject {
    keys: Vec<KeyObject>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyObject {
    kid: String,
    kty: String,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

// === impl KeySet ===

impl KeySet {
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let object: KeySetObject = setpoint_api::json::from_slice(json).map_err(|error| error.to_string())?;
        let key = |object: KeyObject| {
            let material = object.material()?;
            Some(Key {
                id: object.kid,
                material,
            })
        };
        Ok(Self(object.keys.into_iter().filter_map(key).collect()))
    }

    /// Whether a key of the set signed the token. Without a key id in the token, all keys are tried.
    pub(super) fn verifies(&self, token: &Token<'_>) -> bool {
        let is_named = |key: &&Key| token.header.kid.is_empty() || key.id == token.header.kid;
        let mut keys = self.0.iter().filter(is_named);
        keys.any(|key| {
            key.material
                .verifies(&token.header.alg, token.signed, &token.signature)
        })
    }
}

// === impl KeyObject ===

impl KeyObject {
    fn material(&self) -> Option<Material> {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok();
        let point = |length: usize| {
            let mut point = vec![4];
            for coordinate in [decode(&self.x)?, decode(&self.y)?] {
                point.resize(point.len() + length.checked_sub(coordinate.len())?, 0);
                point.extend(coordinate);
            }
            Some(point)
        };
        match (self.kty.as_str(), self.crv.as_str()) {
            ("RSA", _) => Some(Material::Rsa {
                n: decode(&self.n)?,
                e: decode(&self.e)?,
            }),
            ("EC", "P-256") => Some(Material::P256(point(32)?)),
            ("EC", "P-384") => Some(Material::P384(point(48)?)),
            _ => None,
        }
    }
}

// === impl Material ===

impl Material {
    /// Verifies a signature. A key is used only with the algorithms of its own type, whatever the token claims.
    fn verifies(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let elliptic = |algorithm: &'static dyn VerificationAlgorithm, point: &[u8]| {
            UnparsedPublicKey::new(algorithm, point)
                .verify(message, signature)
                .is_ok()
        };
        match (self, algorithm) {
            (Self::P256(point), "ES256") => elliptic(&signature::ECDSA_P256_SHA256_FIXED, point),
            (Self::P384(point), "ES384") => elliptic(&signature::ECDSA_P384_SHA384_FIXED, point),
            (Self::Rsa { n, e }, algorithm) => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature).is_ok()
            }),
            _ => false,
        }
    }
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
        "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
        "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}
