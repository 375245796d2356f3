//! Makes a certificate out of what was asked for: pure but for the key that signs.
//!
//! The name is taken over byte by byte, since every organization in it is a group; of all else, only what the signer
//! stands for: the alternative names, the usages that the request names, and that it is no authority.

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
use crate::certificates::request::{Asked, Name};

/// The cluster's authority: its certificate and its key, in PEM.
#[derive(Clone)]
pub struct Authority {
    pub certificate: String,
    pub key: String,
}

/// An authority that is ready to sign.
#[derive(Debug)]
pub(super) struct Issuer {
    key: AuthorityKey,
    /// Its name, as its certificate has it.
    name: Vec<u8>,
    /// By which its key is found, if its certificate says.
    key_id: Option<Vec<u8>>,
    not_after: Timestamp,
}

/// Nothing can be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("unreadable {0} of the authority")]
    Unreadable(&'static str),
    #[error("the key of the authority is not that of its certificate")]
    OtherKey,
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Timestamp),
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    #[error("cannot sign: {0}")]
    Sign(String),
}

/// So much earlier than now a certificate begins, since clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// The end of a certificate that is to last shorter than this is not taken back for that.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
/// No certificate is made for less.
const LEAST: SignedDuration = SignedDuration::from_mins(10);
const LINE: usize = 64;

/// The bit of a usage of the key.
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
/// The name of a usage of the certificate, in the order in which they are written.
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
/// The version of a certificate that has extensions.
const VERSION_3: [u8; 1] = [2];

/// From when to when a certificate that is to last for so long is good, and never longer than its signer.
pub(super) fn validity(
    now: Timestamp,
    (longest, wanted): (SignedDuration, Option<i64>),
    signer_ends: Timestamp,
) -> (Timestamp, Timestamp) {
    let wanted = wanted.map(SignedDuration::from_secs);
    let lasts = wanted.map_or(longest, |wanted| {
        if wanted > longest {
            longest
        } else {
            wanted.max(LEAST)
        }
    });
    let ends = now + if lasts < SHORT { lasts } else { lasts - BACKDATE };
    (now - BACKDATE, ends.min(signer_ends))
}

/// The time at which a certificate ends.
pub(super) fn ends(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

// === impl Issuer ===

impl Issuer {
    pub(super) fn try_new(authority: &Authority) -> Result<Self, Error> {
        let key = AuthorityKey::from_pem(&authority.key).ok_or(Error::Unreadable("key"))?;
        let pem = authority.certificate.as_bytes();
        let unreadable = Error::Unreadable("certificate");
        let certificate = CertificateDer::from_pem_slice(pem).map_err(|_| unreadable.clone())?;
        let (_, certificate) = X509Certificate::from_der(&certificate).map_err(|_| unreadable.clone())?;
        if *certificate.public_key().subject_public_key.data != *key.public() {
            return Err(Error::OtherKey);
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
            not_after: ends(pem).ok_or(unreadable)?,
            key_id,
            key,
        })
    }

    pub(super) fn ends(&self) -> Timestamp {
        self.not_after
    }

    /// A certificate in PEM of what was asked for. The number must be another for each.
    pub(super) fn issue(
        &self,
        asked: &Asked,
        usages: &[String],
        (begins, ends): (Timestamp, Timestamp),
        number: &[u8],
    ) -> Result<String, Error> {
        if begins >= self.not_after || ends <= begins {
            return Err(Error::Expired(self.not_after));
        }
        let algorithm = self.key.algorithm.clone();
        let unsigned = der::sequence(&[
            der::field(0, &[der::integer(&VERSION_3)]),
            der::integer(number),
            algorithm.clone(),
            self.name.clone(),
            der::sequence(&[der::time(begins), der::time(ends)]),
            asked.subject.clone(),
            asked.key.clone(),
            der::field(3, &[der::sequence(&self.extensions(asked, usages)?)]),
        ]);
        let signature = self.key.sign(&unsigned);
        let signature = signature.map_err(|error| Error::Sign(error.to_string()))?;
        Ok(pem(&der::sequence(&[unsigned, algorithm, der::bits(&signature)])))
    }

    fn extensions(&self, asked: &Asked, usages: &[String]) -> Result<Vec<Vec<u8>>, Error> {
        let (key_usages, extended) = named(usages)?;
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
        if !asked.names.is_empty() {
            let names: Vec<Vec<u8>> = asked.names.iter().map(alternative_name).collect();
            extensions.push(extension(&ALTERNATIVE_NAMES, &der::sequence(&names)));
        }
        Ok(extensions)
    }
}

/// The bits and the names of usages.
fn named(usages: &[String]) -> Result<(u16, Vec<Vec<u8>>), Error> {
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
    let wanted = EXTENDED_USAGES
        .iter()
        .filter(|(name, _)| usages.iter().any(|usage| usage == name));
    let mut extended: Vec<Vec<u8>> = wanted.map(|(_, arcs)| der::identifier(arcs)).collect();
    extended.dedup();
    Ok((bits, extended))
}

fn extension(name: &[u32], content: &[u8]) -> Vec<u8> {
    der::sequence(&[der::identifier(name), der::value(der::OCTET_STRING, content)])
}

/// One that whoever does not understand it must refuse.
fn critical(name: &[u32], content: &[u8]) -> Vec<u8> {
    der::sequence(&[
        der::identifier(name),
        der::yes(),
        der::value(der::OCTET_STRING, content),
    ])
}

fn alternative_name(name: &Name) -> Vec<u8> {
    match name {
        Name::Email(email) => der::plain_field(1, email.as_bytes()),
        Name::Dns(name) => der::plain_field(2, name.as_bytes()),
        Name::Uri(uri) => der::plain_field(6, uri.as_bytes()),
        Name::Address(address) => der::plain_field(7, address),
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

/// The key is nobody's business.
impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
