//! Keys that sign and verify tokens.
//!
//! A server generates one P-256 key for itself; configured EC and RSA keys are accepted too. The key id is the hash of the
//! public key, so a token names its key without revealing it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair as RsaKeyPair;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey, VerificationAlgorithm};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use serde::Serialize;
use setpoint_x509::{Certificate, PublicKeyInfo, pem, pkcs8_encodings};

mod file;

pub use file::load_or_generate;

/// The signature algorithm, by its JWT name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Algorithm {
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "ES384")]
    Es384,
    #[serde(rename = "RS256")]
    Rs256,
}

/// A private key.
pub struct SigningKey {
    signer: Signer,
    public: PublicKey,
}

enum Signer {
    Ecdsa(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

/// A public key.
#[derive(Debug, Clone)]
pub struct PublicKey {
    /// The key id (`kid`).
    pub id: String,
    pub algorithm: Algorithm,
    /// The EC point, or RSA modulus and exponent in DER.
    material: Vec<u8>,
    web: JsonWebKey,
}

/// A public key as JSON Web Key (RFC 7517).
#[derive(Debug, Clone, Serialize)]
pub struct JsonWebKey {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    kid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'static str>,
    alg: Algorithm,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<String>,
}

/// A key that cannot be read, generated or stored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("invalid PEM key: {0}")]
    Pem(rustls_pki_types::pem::Error),
    #[error("unusable key: {0}")]
    Unusable(String),
    #[error("cannot generate a key: the random number generator failed")]
    Random,
    #[error("cannot read or write the key file {path}: {source}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

// === impl SigningKey ===

impl SigningKey {
    /// Generates a P-256 key, as PKCS#8 in PEM.
    pub fn generate() -> Result<String, Error> {
        let algorithm = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).map_err(|_| Error::Random)?;
        Ok(pem::encode(pem::PRIVATE_KEY, pkcs8.as_ref()))
    }

    /// The first private key in the text.
    pub fn from_pem(text: &str) -> Result<Self, Error> {
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(Error::Pem)?;
        let mut signer = Err(Error::Unusable("the encoding is unknown".to_owned()));
        for der in pkcs8_encodings(&key) {
            signer = signer.or_else(|_| Signer::from_pkcs8(&der));
        }
        let signer = signer?;
        let public = PublicKey::from_spki(&signer.spki())?;
        Ok(Self { signer, public })
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let random = SystemRandom::new();
        match &self.signer {
            Signer::Ecdsa(pair) => {
                let signed = pair.sign(&random, message).map_err(|_| Error::Random)?;
                Ok(signed.as_ref().to_vec())
            }
            Signer::Rsa(pair) => {
                let mut signed = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signed)
                    .map_err(|_| Error::Random)?;
                Ok(signed)
            }
        }
    }
}

impl Signer {
    fn from_pkcs8(der: &[u8]) -> Result<Self, Error> {
        let curves = [
            &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        ];
        for curve in curves {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(curve, der, &SystemRandom::new()) {
                return Ok(Self::Ecdsa(Box::new(pair)));
            }
        }
        let pair = RsaKeyPair::from_pkcs8(der).map_err(unusable)?;
        Ok(Self::Rsa(Box::new(pair)))
    }

    /// The public key as SubjectPublicKeyInfo.
    fn spki(&self) -> Vec<u8> {
        match self {
            Self::Ecdsa(pair) => setpoint_x509::encode_elliptic_curve_key(pair.public_key().as_ref()),
            Self::Rsa(pair) => setpoint_x509::encode_rsa_key(pair.public().as_ref()),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey")
            .field("id", &self.public.id)
            .finish_non_exhaustive()
    }
}

// === impl PublicKey ===

impl PublicKey {
    /// All public keys in the text; of private keys and certificates, their public keys.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, Error> {
        let bytes = text.as_bytes();
        let mut keys = Vec::new();
        for der in SubjectPublicKeyInfoDer::pem_slice_iter(bytes).flatten() {
            keys.push(Self::from_spki(&der)?);
        }
        for der in CertificateDer::pem_slice_iter(bytes).flatten() {
            let certificate = Certificate::from_der(&der).map_err(unusable)?;
            keys.push(Self::from_spki(certificate.public_key.raw)?);
        }
        if let (true, Ok(key)) = (keys.is_empty(), SigningKey::from_pem(text)) {
            keys.push(key.public);
        }
        match keys.is_empty() {
            true => Err(Error::Unusable("the text contains no key".to_owned())),
            false => Ok(keys),
        }
    }

    fn from_spki(spki: &[u8]) -> Result<Self, Error> {
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, spki));
        let parsed = PublicKeyInfo::from_der(spki).map_err(unusable)?;
        let material = parsed.key.to_vec();
        let web = JsonWebKey::of(&id, &parsed)?;
        Ok(Self {
            id,
            algorithm: web.alg,
            material,
            web,
        })
    }

    /// Whether the signature was made with this key.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &'static dyn VerificationAlgorithm = match self.algorithm {
            Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        };
        UnparsedPublicKey::new(algorithm, &self.material)
            .verify(message, signature)
            .is_ok()
    }

    /// The key as JSON Web Key.
    pub fn web_key(&self) -> &JsonWebKey {
        &self.web
    }
}

impl JsonWebKey {
    fn of(id: &str, key: &PublicKeyInfo<'_>) -> Result<Self, Error> {
        let mut web = Self {
            usage: "sig",
            kty: "EC",
            kid: id.to_owned(),
            crv: None,
            alg: Algorithm::Es256,
            n: None,
            e: None,
            x: None,
            y: None,
        };
        if let Some((modulus, exponent)) = key.rsa_numbers() {
            (web.kty, web.alg) = ("RSA", Algorithm::Rs256);
            (web.n, web.e) = (Some(encode(modulus)), Some(encode(exponent)));
            return Ok(web);
        }
        let point = key.elliptic_curve_point();
        let point = point.ok_or_else(|| Error::Unusable("the key is neither RSA nor ECDSA".to_owned()))?;
        let coordinates = point.get(1..).unwrap_or_default();
        (web.crv, web.alg) = match coordinates.len() {
            64 => (Some("P-256"), Algorithm::Es256),
            96 => (Some("P-384"), Algorithm::Es384),
            _ => return Err(Error::Unusable("the curve is neither P-256 nor P-384".to_owned())),
        };
        let (x, y) = coordinates.split_at(coordinates.len() / 2);
        (web.x, web.y) = (Some(encode(x)), Some(encode(y)));
        Ok(web)
    }
}

// === impl Algorithm ===

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
        }
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn unusable(error: impl fmt::Display) -> Error {
    Error::Unusable(error.to_string())
}

#[cfg(test)]
mod tests;
