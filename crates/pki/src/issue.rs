//! Issuing: a CA signs itself, and the certificates of a server or a client.

use jiff::{SignedDuration, Timestamp};
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use setpoint_x509::{Certificate, CertificateTemplate, GeneralName, Name, PrivateKey, extension, oid, pem};

use crate::{CertKeyPair, Error};

/// The validity of CA certificates.
const AUTHORITY_DAYS: i64 = 3650;
/// The validity of other certificates.
const CERTIFICATE_DAYS: i64 = 365;
/// How far a certificate is backdated, since clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_hours(1);
/// Bytes of a random serial number.
const SERIAL_BYTES: usize = 16;
/// Bytes of a key identifier, of the hash of the public key.
const KEY_ID_BYTES: usize = 20;
/// The bits of the key usages `digitalSignature` and `keyCertSign`.
const DIGITAL_SIGNATURE: u16 = 0x8000;
const CERT_SIGN: u16 = 0x0400;

/// The fields of a server or client certificate that differ from one to the next.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// The DER encoding of the subject's name.
    pub(crate) name: Vec<u8>,
    pub(crate) alt_names: Vec<GeneralName>,
    /// The extended key usage.
    pub(crate) usage: &'static [u32],
}

/// A new CA of this common name.
pub(crate) fn authority(name: &str, now: Timestamp) -> Result<CertKeyPair, Error> {
    let signed = || {
        let (key, key_pem) = PrivateKey::generate()?;
        let subject = distinguished_name(name, None);
        let template = CertificateTemplate {
            serial_number: &serial_number()?,
            issuer: &subject,
            subject: &subject,
            public_key: &key.public_key_info(),
            not_before: now - BACKDATE,
            not_after: now + days(AUTHORITY_DAYS),
            extensions: vec![
                extension::key_usage(DIGITAL_SIGNATURE | CERT_SIGN),
                extension::ca_without_intermediates(),
                extension::subject_key_id(&key_id(&key)),
            ],
        };
        Ok(CertKeyPair {
            certificate: pem::encode(pem::CERTIFICATE, &template.sign(&key)?),
            key: key_pem,
        })
    };
    signed().map_err(Error::issue(name))
}

/// A certificate signed by a CA, with a new key. `name` is for errors only.
pub(crate) fn signed(
    authority: &CertKeyPair,
    name: &str,
    subject: &Subject,
    now: Timestamp,
) -> Result<CertKeyPair, Error> {
    let authority_key = PrivateKey::from_pem(&authority.key).map_err(Error::Authority)?;
    let authority = authority.certificate_der()?;
    let authority = Certificate::from_der(&authority).map_err(Error::Authority)?;
    let signed = || {
        let (key, key_pem) = PrivateKey::generate()?;
        let template = CertificateTemplate {
            serial_number: &serial_number()?,
            issuer: authority.subject.raw,
            subject: &subject.name,
            public_key: &key.public_key_info(),
            not_before: now - BACKDATE,
            not_after: not_after(&authority, now),
            extensions: extensions(subject, authority.subject_key_id()),
        };
        Ok(CertKeyPair {
            certificate: pem::encode(pem::CERTIFICATE, &template.sign(&authority_key)?),
            key: key_pem,
        })
    };
    signed().map_err(Error::issue(name))
}

/// The end of a certificate that a CA signs now. It does not outlive the CA.
pub(crate) fn not_after(authority: &Certificate<'_>, now: Timestamp) -> Timestamp {
    (now + days(CERTIFICATE_DAYS)).min(authority.not_after)
}

fn extensions(subject: &Subject, authority_key_id: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut extensions = vec![
        extension::key_usage(DIGITAL_SIGNATURE),
        extension::extended_key_usage(&[subject.usage]),
        extension::not_a_ca(),
    ];
    extensions.extend(authority_key_id.map(extension::authority_key_id));
    if !subject.alt_names.is_empty() {
        extensions.push(extension::subject_alt_names(&subject.alt_names));
    }
    extensions
}

/// The subject of a certificate: the user name, and the group if there is one.
pub(crate) fn distinguished_name(name: &str, organization: Option<&str>) -> Vec<u8> {
    let organization = organization.map(|organization| (oid::ORGANIZATION, organization));
    let attributes: Vec<(&[u32], &str)> = organization
        .into_iter()
        .chain([(oid::COMMON_NAME, name)])
        .collect();
    Name::encode(&attributes)
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn serial_number() -> Result<[u8; SERIAL_BYTES], setpoint_x509::Error> {
    let mut number = [0; SERIAL_BYTES];
    let filled = SystemRandom::new().fill(&mut number);
    filled.map_err(|_| setpoint_x509::Error::Random)?;
    Ok(number)
}

/// The identifier of a public key: the beginning of its hash (RFC 7093).
fn key_id(key: &PrivateKey) -> Vec<u8> {
    digest::digest(&digest::SHA256, key.public()).as_ref()[..KEY_ID_BYTES].to_vec()
}
