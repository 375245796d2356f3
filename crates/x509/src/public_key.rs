//! [`PublicKeyInfo`]: a public key with its algorithm, and the verification of signatures.

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use crate::der::{self, Element, Reader, write};
use crate::{Error, oid};

/// A SubjectPublicKeyInfo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKeyInfo<'a> {
    /// The DER encoding.
    pub raw: &'a [u8],
    /// The key itself: an elliptic curve point, or an RSA modulus and exponent in DER.
    pub key: &'a [u8],
    algorithm: Element<'a>,
    parameters: Option<Element<'a>>,
}

/// A signature algorithm with its parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignatureAlgorithm<'a> {
    algorithm: Element<'a>,
    parameters: Option<Element<'a>>,
}

// === impl PublicKeyInfo ===

impl<'a> PublicKeyInfo<'a> {
    /// Reads a key from its DER encoding, which must have no trailing bytes.
    pub fn from_der(der: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(der);
        let key = Self::read(&mut reader).filter(|_| reader.is_empty());
        key.ok_or(Error::Malformed("public key"))
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let element = reader.element(der::SEQUENCE)?;
        let mut fields = element.reader();
        let SignatureAlgorithm {
            algorithm,
            parameters,
        } = SignatureAlgorithm::read(&mut fields)?;
        let key = fields.element(der::BIT_STRING)?.bytes_of_bits()?;
        fields.is_empty().then_some(Self {
            raw: element.raw,
            key,
            algorithm,
            parameters,
        })
    }

    /// The point, if this is an elliptic curve key.
    pub fn elliptic_curve_point(&self) -> Option<&'a [u8]> {
        self.algorithm
            .is_identifier(oid::EC_PUBLIC_KEY)
            .then_some(self.key)
    }

    /// Modulus and exponent without leading zeros, if this is an RSA key.
    pub fn rsa_numbers(&self) -> Option<(&'a [u8], &'a [u8])> {
        if !self.algorithm.is_identifier(oid::RSA) {
            return None;
        }
        let mut numbers = Reader::of_sequence(self.key)?;
        Some((numbers.any()?.unsigned()?, numbers.any()?.unsigned()?))
    }

    /// Verifies a signature of this key.
    pub(crate) fn verify(
        &self,
        algorithm: &SignatureAlgorithm<'_>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        let verification = self
            .verification(algorithm)
            .ok_or(Error::UnsupportedAlgorithm("signature"))?;
        UnparsedPublicKey::new(verification, self.key)
            .verify(message, signature)
            .map_err(|_| Error::InvalidSignature)
    }

    fn verification(&self, algorithm: &SignatureAlgorithm<'_>) -> Option<&'static dyn VerificationAlgorithm> {
        let is_on = |curve| {
            self.parameters
                .is_some_and(|parameters| parameters.is_identifier(curve))
        };
        let (is_p256, is_p384) = (is_on(oid::P256), is_on(oid::P384));
        match algorithm.scheme()? {
            SignatureScheme::EcdsaSha256 if is_p256 => Some(&signature::ECDSA_P256_SHA256_ASN1),
            SignatureScheme::EcdsaSha256 if is_p384 => Some(&signature::ECDSA_P384_SHA256_ASN1),
            SignatureScheme::EcdsaSha384 if is_p256 => Some(&signature::ECDSA_P256_SHA384_ASN1),
            SignatureScheme::EcdsaSha384 if is_p384 => Some(&signature::ECDSA_P384_SHA384_ASN1),
            SignatureScheme::EcdsaSha256 | SignatureScheme::EcdsaSha384 => None,
            SignatureScheme::Ed25519 => Some(&signature::ED25519),
            SignatureScheme::RsaSha256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            SignatureScheme::RsaSha384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            SignatureScheme::RsaSha512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            SignatureScheme::PssSha256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            SignatureScheme::PssSha384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            SignatureScheme::PssSha512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        }
    }
}

/// The DER encoding of a P-256 or P-384 public key; the curve follows from the length of the point.
pub fn encode_elliptic_curve_key(point: &[u8]) -> Vec<u8> {
    let curve = if point.len() == 65 { oid::P256 } else { oid::P384 };
    let algorithm = write::sequence(&[write::identifier(oid::EC_PUBLIC_KEY), write::identifier(curve)]);
    write::sequence(&[algorithm, write::bits(point)])
}

/// The DER encoding of an RSA public key, given modulus and exponent in DER.
pub fn encode_rsa_key(key: &[u8]) -> Vec<u8> {
    let algorithm = write::sequence(&[write::identifier(oid::RSA), write::null()]);
    write::sequence(&[algorithm, write::bits(key)])
}

/// The DER encoding of an Ed25519 public key.
pub(crate) fn encode_ed25519(key: &[u8]) -> Vec<u8> {
    let algorithm = write::sequence(&[write::identifier(oid::ED25519)]);
    write::sequence(&[algorithm, write::bits(key)])
}

// === impl SignatureAlgorithm ===

/// The signature algorithms that can be verified: scheme and hash function.
#[derive(Debug, Clone, Copy)]
enum SignatureScheme {
    EcdsaSha256,
    EcdsaSha384,
    Ed25519,
    RsaSha256,
    RsaSha384,
    RsaSha512,
    PssSha256,
    PssSha384,
    PssSha512,
}

const SCHEMES: &[(&[u32], SignatureScheme)] = &[
    (oid::ECDSA_WITH_SHA256, SignatureScheme::EcdsaSha256),
    (oid::ECDSA_WITH_SHA384, SignatureScheme::EcdsaSha384),
    (oid::ED25519, SignatureScheme::Ed25519),
    (oid::RSA_WITH_SHA256, SignatureScheme::RsaSha256),
    (oid::RSA_WITH_SHA384, SignatureScheme::RsaSha384),
    (oid::RSA_WITH_SHA512, SignatureScheme::RsaSha512),
];

/// The hash functions of RSASSA-PSS, which its parameters name.
const PSS_SCHEMES: &[(&[u32], SignatureScheme)] = &[
    (oid::SHA256, SignatureScheme::PssSha256),
    (oid::SHA384, SignatureScheme::PssSha384),
    (oid::SHA512, SignatureScheme::PssSha512),
];

impl<'a> SignatureAlgorithm<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Option<Self> {
        let mut fields = reader.sequence()?;
        let algorithm = fields.element(der::OBJECT_IDENTIFIER)?;
        let parameters = match fields.is_empty() {
            true => None,
            false => Some(fields.any()?),
        };
        fields.is_empty().then_some(Self {
            algorithm,
            parameters,
        })
    }

    fn scheme(&self) -> Option<SignatureScheme> {
        if self.algorithm.is_identifier(oid::RSA_PSS) {
            return self.pss_scheme();
        }
        find(SCHEMES, &self.algorithm)
    }

    fn pss_scheme(&self) -> Option<SignatureScheme> {
        let hash = self.parameters?.reader().optional(der::CONTEXT_CONSTRUCTED)?;
        let hash = hash.reader().sequence()?.element(der::OBJECT_IDENTIFIER)?;
        find(PSS_SCHEMES, &hash)
    }
}

fn find(schemes: &[(&[u32], SignatureScheme)], identifier: &Element<'_>) -> Option<SignatureScheme> {
    let known = schemes.iter().find(|(arcs, _)| identifier.is_identifier(arcs));
    known.map(|(_, scheme)| *scheme)
}
