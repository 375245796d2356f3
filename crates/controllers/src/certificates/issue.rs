//! Issues an X.509 certificate for a PKCS #10 request. Pure but for the signing key.
//!
//! The subject is copied byte by byte, since every organization in it is a group. Everything else is limited to what
//! the signer vouches for: subject alternative names, the requested usages, and that it is not a CA.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use setpoint_x509::{Certificate, CertificateTemplate, PrivateKey, extension, pem};

use crate::certificates::request::CertificateRequest;

/// The cluster's certificate authority: certificate and key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority that is ready to sign.
#[derive(Debug)]
pub(super) struct Issuer {
    key: PrivateKey,
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
    #[error(transparent)]
    Sign(setpoint_x509::Error),
}

/// How far a certificate is backdated, since clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Certificates shorter than this keep their full duration in spite of the backdating.
const SHORT_LIVED: SignedDuration = SignedDuration::from_hours(8);
/// The shortest certificate that is issued.
const MIN_DURATION: SignedDuration = SignedDuration::from_mins(10);

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
    Some(Certificate::from_der(&der).ok()?.not_after)
}

// === impl Issuer ===

impl Issuer {
    pub(super) fn try_new(authority: &Authority) -> Result<Self, Error> {
        let key = PrivateKey::from_pem(&authority.key).map_err(|_| Error::InvalidAuthority("key"))?;
        let invalid = Error::InvalidAuthority("certificate");
        let der = CertificateDer::from_pem_slice(authority.certificate.as_bytes());
        let der = der.map_err(|_| invalid.clone())?;
        let certificate = Certificate::from_der(&der).map_err(|_| invalid)?;
        if certificate.public_key.key != key.public() {
            return Err(Error::KeyMismatch);
        }
        Ok(Self {
            name: certificate.subject.raw.to_vec(),
            not_after: certificate.not_after,
            key_id: certificate.subject_key_id().map(<[u8]>::to_vec),
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
        let template = CertificateTemplate {
            serial_number,
            issuer: &self.name,
            subject: &csr.subject,
            public_key: &csr.key,
            not_before,
            not_after,
            extensions: self.extensions(csr, usages)?,
        };
        let certificate = template.sign(&self.key).map_err(Error::Sign)?;
        Ok(pem::encode(pem::CERTIFICATE, &certificate))
    }

    fn extensions(&self, csr: &CertificateRequest, usages: &[String]) -> Result<Vec<Vec<u8>>, Error> {
        let (key_usages, extended) = usage_bits(usages)?;
        let mut extensions = Vec::new();
        if key_usages != 0 {
            extensions.push(extension::key_usage(key_usages));
        }
        if !extended.is_empty() {
            extensions.push(extension::extended_key_usage(&extended));
        }
        extensions.push(extension::not_a_ca());
        if let Some(id) = &self.key_id {
            extensions.push(extension::authority_key_id(id));
        }
        if !csr.names.is_empty() {
            extensions.push(extension::subject_alt_names(&csr.names));
        }
        Ok(extensions)
    }
}

/// The key usage bits and the extended key usages of these usages.
fn usage_bits(usages: &[String]) -> Result<(u16, Vec<&'static [u32]>), Error> {
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
    let mut extended: Vec<&[u32]> = requested.map(|(_, arcs)| *arcs).collect();
    extended.dedup();
    Ok((bits, extended))
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
