//! Issues an X.509 certificate for a PKCS #10 request. Pure but for the signing key.
//!
//! The subject is copied byte by byte, since every organization in it is a group. Everything else is limited to what
//! the signer vouches for: subject alternative names, the requested usages, and that it is not a CA.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::certificates::authority_key::AuthorityKey;
use crate::certificates::der;
use crate::certificates::request::{CertificateRequest, SubjectAltName};

/// The cluster's certificate authority: certificate and key, in PEM.
#[derive(Clone)]
pub struct Authority {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority that is ready to sign.
#[derive(Debug)]
pub(super) struct Issuer {
    key: AuthorityKey,
    /// Its subject, as in its certificate.
    name: Vec<u8>,
    /// Its subject key identifier, if its certificate has one.
    key_id: Option<Vec<u8>>,
    not_after: Timestamp,
}

/// Why no certificate can be issued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot parse the {0} of the certificate authority")]
    InvalidAuthority(&'static str),
    #[error("the key of the certificate authority does not match its certificate")]
    KeyMismatch,
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Timestamp),
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    #[error("cannot sign: {0}")]
    Sign(String),
}

/// How far a certificate is backdated, since clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Certificates shorter than this keep their full duration in spite of the backdating.
const SHORT_LIVED: SignedDuration = SignedDuration::from_hours(8);
/// The shortest certificate that is issued.
const MIN_DURATION: SignedDuration = SignedDuration::from_mins(10);
const LINE: usize = 64;

/// Key usages and their bits.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0x8000),
    ("digital signature", 0x8000),
    ("content commitment", 0x4000),
    ("key encipherment", 0x2000),
    ("data encipherment", 0x1000),
    ("key agreement", 0x0800),
    ("cert sign", 0x0400),
    ("crl sign", 0x0200),
    ("encipher only", 0x0100),
    ("decipher only", 0x0080),
];
/// Extended key usages and their object identifiers, in the order in which they are written.
const EXTENDED_USAGES: [(&str, &[u32]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

const KEY_USAGE: [u32; 4] = [2, 5, 29, 15];
const ALTERNATIVE_NAMES: [u32; 4] = [2, 5, 29, 17];
const BASIC_CONSTRAINTS: [u32; 4] = [2, 5, 29, 19];
const AUTHORITY_KEY: [u32; 4] = [2, 5, 29, 35];
const EXTENDED_USAGE: [u32; 4] = [2, 5, 29, 37];
/// X.509 version 3, the one with extensions.
const VERSION_3: [u8; 1] = [2];

/// The validity period of a certificate of this duration, never beyond its signer's.
pub(super) fn validity(
    now: Timestamp,
    (longest, requested): (SignedDuration, Option<i64>),
    signer_not_after: Timestamp,
) -> (Timestamp, Timestamp) {
    let requested = requested.map(SignedDuration::from_secs);
    let lasts = requested.map_or(longest, |requested| {
        if requested > longest {
            longest
        } else {
            requested.max(MIN_DURATION)
        }
    });
    let not_after = now
        + if lasts < SHORT_LIVED {
            lasts
        } else {
            lasts - BACKDATE
        };
    (now - BACKDATE, not_after.min(signer_not_after))
}

/// When a PEM certificate expires.
pub(super) fn not_after(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

// === impl Issuer ===

impl Issuer {
    pub(super) fn try_new(authority: &Authority) -> Result<Self, Error> {
        let key = AuthorityKey::from_pem(&authority.key).ok_or(Error::InvalidAuthority("key"))?;
        let pem = authority.certificate.as_bytes();
        let invalid = Error::InvalidAuthority("certificate");
        let certificate = CertificateDer::from_pem_slice(pem).map_err(|_| invalid.clone())?;
        let (_, certificate) = X509Certificate::from_der(&certificate).map_err(|_| invalid.clone())?;
        if *certificate.public_key().subject_public_key.data != *key.public() {
            return Err(Error::KeyMismatch);
        }
        let key_id = certificate
            .extensions()
            .iter()
            .find_map(|own| match own.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            });
        Ok(Self {
            name: certificate.subject().as_raw().to_vec(),
            not_after: not_after(pem).ok_or(invalid)?,
            key_id,
            key,
        })
    }

    pub(super) fn not_after(&self) -> Timestamp {
        self.not_after
    }

    /// A PEM certificate for the request. The serial number must be unique.
    pub(super) fn issue(
        &self,
        csr: &CertificateRequest,
        usages: &[String],
        (not_before, not_after): (Timestamp, Timestamp),
        serial_number: &[u8],
    ) -> Result<String, Error> {
        if not_before >= self.not_after || not_after <= not_before {
            return Err(Error::Expired(self.not_after));
        }
        let algorithm = self.key.algorithm.clone();
        let unsigned = der::sequence(&[
            der::field(0, &[der::integer(&VERSION_3)]),
            der::integer(serial_number),
            algorithm.clone(),
            self.name.clone(),
            der::sequence(&[der::time(not_before), der::time(not_after)]),
            csr.subject.clone(),
            csr.key.clone(),
            der::field(3, &[der::sequence(&self.extensions(csr, usages)?)]),
        ]);
        let signature = self.key.sign(&unsigned);
        let signature = signature.map_err(|error| Error::Sign(error.to_string()))?;
        Ok(pem(&der::sequence(&[unsigned, algorithm, der::bits(&signature)])))
    }

    fn extensions(&self, csr: &CertificateRequest, usages: &[String]) -> Result<Vec<Vec<u8>>, Error> {
        let (key_usages, extended) = usage_bits(usages)?;
        let mut extensions = Vec::new();
        if key_usages != 0 {
            extensions.push(critical(&KEY_USAGE, &der::flags(key_usages)));
        }
        if !extended.is_empty() {
            extensions.push(extension(&EXTENDED_USAGE, &der::sequence(&extended)));
        }
        extensions.push(critical(&BASIC_CONSTRAINTS, &der::sequence(&[])));
        if let Some(id) = &self.key_id {
            extensions.push(extension(
                &AUTHORITY_KEY,
                &der::sequence(&[der::plain_field(0, id)]),
            ));
        }
        if !csr.names.is_empty() {
            let names: Vec<Vec<u8>> = csr.names.iter().map(alternative_name).collect();
            extensions.push(extension(&ALTERNATIVE_NAMES, &der::sequence(&names)));
        }
        Ok(extensions)
    }
}

/// The key usage bits and the extended key usages of these usages.
fn usage_bits(usages: &[String]) -> Result<(u16, Vec<Vec<u8>>), Error> {
    let bit = |usage: &str| {
        KEY_USAGES
            .iter()
            .find(|(name, _)| *name == usage)
            .map(|(_, bit)| *bit)
    };
    let is_extended = |usage: &str| EXTENDED_USAGES.iter().any(|(name, _)| *name == usage);
    let unknown = usages
        .iter()
        .filter(|usage| bit(usage).is_none() && !is_extended(usage));
    let unknown: Vec<String> = unknown.cloned().collect();
    if !unknown.is_empty() {
        return Err(Error::Usages(unknown));
    }
    let bits = usages
        .iter()
        .filter_map(|usage| bit(usage))
        .fold(0, |all, bit| all | bit);
    let requested = EXTENDED_USAGES
        .iter()
        .filter(|(name, _)| usages.iter().any(|usage| usage == name));
    let mut extended: Vec<Vec<u8>> = requested.map(|(_, arcs)| der::identifier(arcs)).collect();
    extended.dedup();
    Ok((bits, extended))
}

fn extension(name: &[u32], content: &[u8]) -> Vec<u8> {
    der::sequence(&[der::identifier(name), der::value(der::OCTET_STRING, content)])
}

/// A critical extension: a verifier that does not know it must reject the certificate.
fn critical(name: &[u32], content: &[u8]) -> Vec<u8> {
    der::sequence(&[
        der::identifier(name),
        der::boolean_true(),
        der::value(der::OCTET_STRING, content),
    ])
}

fn alternative_name(name: &SubjectAltName) -> Vec<u8> {
    match name {
        SubjectAltName::Email(email) => der::plain_field(1, email.as_bytes()),
        SubjectAltName::Dns(name) => der::plain_field(2, name.as_bytes()),
        SubjectAltName::Uri(uri) => der::plain_field(6, uri.as_bytes()),
        SubjectAltName::Address(address) => der::plain_field(7, address),
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(LINE);
    let lines = lines.map(|line| String::from_utf8_lossy(line));
    let body: String = lines.map(|line| format!("{line}\n")).collect();
    format!("-----BEGIN CERTIFICATE-----\n{body}-----END CERTIFICATE-----\n")
}

// === impl Authority ===

/// The private key is not printed.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
